"""Runs of code and the tools that they called."""

from collections.abc import Awaitable, Callable, Sequence

from nekro_core.chat import ChatKey, RunRecord
from nekro_core.store.database import Database, Row, SqlStatement, Value
from nekro_core.store.values import ToolCall

MAX_ARGUMENTS = 16_384
"""Characters kept of a call's arguments: enough to see what was meant; a picture is not kept."""

_CALLS = 100
"""Calls that share a statement."""


class RunRepository:
    """The code behind each answer."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def begin(
        self, run_id: str, chat_key: ChatKey, *, code: str, turn_id: int = 0, step: int = 0
    ) -> Awaitable[object]:
        """Write down that a run starts; its place in line is taken before this returns, so that
        nothing that the run sends is committed before it. ``turn_id`` 0 is a run that no turn asked
        for. May be awaited more than once. Raises `Conflict`."""
        return self._database.write(
            SqlStatement(
                "INSERT INTO runs (run_id, chat_key, turn_id, step, code, output, stop, error, "
                "started, seconds) VALUES (?, ?, ?, ?, ?, '', '', '', ?, 0)",
                (run_id, str(chat_key), turn_id, step, code, self._clock()),
            )
        )

    async def end(
        self,
        run_id: str,
        *,
        output: str,
        stop: str,
        error: str = "",
        seconds: float,
        code: str | None = None,
    ) -> None:
        """The run is over. ``code`` replaces what was known at its begin: the code of a streamed
        reply is whole only now."""
        values = (output, stop, error, seconds)
        await self._database.write(
            SqlStatement(
                "UPDATE runs SET output = ?, stop = ?, error = ?, seconds = ? WHERE run_id = ?",
                (*values, run_id),
            )
            if code is None
            else SqlStatement(
                "UPDATE runs SET output = ?, stop = ?, error = ?, seconds = ?, code = ? "
                "WHERE run_id = ?",
                (*values, code, run_id),
            )
        )

    async def get(self, run_id: str) -> RunRecord | None:
        """One run; its ``stop`` is empty while it runs, or where the process died in it."""
        rows = await self._database.read("SELECT * FROM runs WHERE run_id = ?", run_id)
        return _run(rows[0]) if rows else None

    async def of_turn(self, turn_id: int) -> list[RunRecord]:
        """The runs of a turn, in order."""
        rows = await self._database.read(
            "SELECT * FROM runs WHERE turn_id = ? ORDER BY step, started", turn_id
        )
        return [_run(row) for row in rows]

    async def beside(self, run_id: str) -> list[RunRecord]:
        """A run and the others of its turn, in order; nothing where there is no such run."""
        rows = await self._database.read(
            "SELECT * FROM runs WHERE run_id = ? OR (turn_id <> 0 AND turn_id = "
            "(SELECT turn_id FROM runs WHERE run_id = ?)) ORDER BY step, started",
            run_id,
            run_id,
        )
        return [_run(row) for row in rows]

    async def close_interrupted(self, turn_id: int) -> None:
        """Close the turn's runs that an earlier process was at; of 0 those that no turn asked for.
        Called before any of them begins in this process."""
        await self._database.write(
            SqlStatement(
                "UPDATE runs SET stop = 'cut_off' WHERE turn_id = ? AND stop = ''", (turn_id,)
            )
        )

    def add_calls(self, run_id: str, calls: Sequence[ToolCall]) -> Awaitable[object]:
        """Keep calls of tools together, each in the place of what was kept when it began. Their
        place in line is taken before this returns."""
        return self._database.write(
            *(_insert_calls(run_id, calls[at : at + _CALLS]) for at in range(0, len(calls), _CALLS))
        )

    async def calls(self, run_id: str) -> list[ToolCall]:
        """The run's calls, in order."""
        rows = await self._database.read(
            "SELECT * FROM tool_calls WHERE run_id = ? ORDER BY position", run_id
        )
        return [
            ToolCall(
                position=row["position"],
                name=row["name"],
                arguments=row["arguments"],
                outcome=row["outcome"],
                started=row["started"],
                seconds=row["seconds"],
            )
            for row in rows
        ]


def _insert_calls(run_id: str, calls: Sequence[ToolCall]) -> SqlStatement:
    rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(calls))
    return SqlStatement(
        "INSERT INTO tool_calls (run_id, position, name, arguments, outcome, started, seconds) "
        f"VALUES {rows} ON CONFLICT (run_id, position) DO UPDATE "
        "SET outcome = excluded.outcome, seconds = excluded.seconds",
        tuple(value for call in calls for value in _values(run_id, call)),
    )


def _values(run_id: str, call: ToolCall) -> tuple[Value, ...]:
    arguments = call.arguments
    if len(arguments) > MAX_ARGUMENTS:
        arguments = f"{arguments[:MAX_ARGUMENTS]}… ({len(arguments)} characters)"
    return (
        run_id,
        call.position,
        call.name,
        arguments,
        call.outcome,
        call.started,
        call.seconds,
    )


def _run(row: Row) -> RunRecord:
    return RunRecord(
        run_id=row["run_id"],
        chat_key=ChatKey.parse(row["chat_key"]),
        code=row["code"],
        output=row["output"],
        stop=row["stop"],
        error=row["error"],
        started=row["started"],
        seconds=row["seconds"],
    )
