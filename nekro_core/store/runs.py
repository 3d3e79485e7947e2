"""Stores runs of code and their tool calls."""

from collections.abc import Awaitable, Callable, Collection, Sequence

from nekro_core.chat import ChatKey, RunRecord
from nekro_core.store.database import Database, Row, SqlStatement, Value
from nekro_core.store.messages import chat_key_of
from nekro_core.store.values import ToolCall

MAX_ARGUMENTS = 16_384
"""Maximum number of characters of a call's arguments that are stored. This is enough for a text,
but not for a picture."""

MOST_RUNS = 200
"""Maximum number of runs whose turns one query looks up."""
_CALLS = 100
"""Maximum number of calls in one statement."""


class RunRepository:
    """Reads and writes runs with their code, output and tool calls."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def begin(
        self,
        run_id: str,
        chat_key: ChatKey,
        *,
        code: str,
        turn_id: int = 0,
        step: int = 0,
        stop: str = "",
    ) -> Awaitable[object]:
        """Store that a run starts.

        The write is queued when this method returns, so the run is committed before any of its
        messages. ``turn_id`` is 0 for a run without a turn. Until `end` is called, ``stop`` is
        stored as the reason why the run ended. The result may be awaited more than once. Raises
        `UniqueConflict`.
        """
        return self._database.write(
            SqlStatement(
                "INSERT INTO runs (run_id, chat_key, turn_id, step, code, output, stop, error, "
                "started, seconds) VALUES (?, ?, ?, ?, ?, '', ?, '', ?, 0)",
                (run_id, str(chat_key), turn_id, step, code, stop, self._clock()),
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
        """Store that a run ended, and that it took ``seconds``. ``code`` replaces the code that was
        stored when the run began, since the code of a streamed reply is complete only at the end.
        With None, that code stays."""
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
        """Get one run; None if there is no such run. While the run lasts, its ``stop`` is the text
        that `begin` stored, which is usually empty. It stays so if the process died during the
        run."""
        rows = await self._database.read("SELECT * FROM runs WHERE run_id = ?", run_id)
        return _run(rows[0]) if rows else None

    async def of_turn(self, turn_id: int) -> list[RunRecord]:
        """Get the runs of a turn, in order."""
        rows = await self._database.read(
            "SELECT * FROM runs WHERE turn_id = ? ORDER BY step, started", turn_id
        )
        return [_run(row) for row in rows]

    async def beside(self, run_id: str) -> list[RunRecord]:
        """Get all runs of the turn to which a run belongs, in order. The list is empty if there is
        no such run."""
        rows = await self._database.read(
            "SELECT * FROM runs WHERE run_id = ? OR (turn_id <> 0 AND turn_id = "
            "(SELECT turn_id FROM runs WHERE run_id = ?)) ORDER BY step, started",
            run_id,
            run_id,
        )
        return [_run(row) for row in rows]

    async def in_same_turn(self, run_id: str, other: str) -> bool:
        """Return whether two runs belong to the same turn."""
        rows = await self._database.read(
            "SELECT turn_id FROM runs WHERE run_id = ? AND turn_id <> 0 AND turn_id = "
            "(SELECT turn_id FROM runs WHERE run_id = ?)",
            run_id,
            other,
        )
        return bool(rows)

    async def of_same_turns(self, run_ids: Collection[str]) -> list[list[RunRecord]]:
        """Get all runs of the turns to which these runs belong. There is one list for each turn,
        the oldest turn first. The runs of a turn are in order. Of more than 200 ``run_ids`` only
        the last 200 are looked up."""
        wanted = [*run_ids][-MOST_RUNS:]
        if not wanted:
            return []
        marks = ", ".join("?" * len(wanted))
        rows = await self._database.read(
            "SELECT * FROM runs WHERE turn_id <> 0 AND turn_id IN "
            f"(SELECT turn_id FROM runs WHERE run_id IN ({marks})) "
            "ORDER BY turn_id, step, started",
            *wanted,
        )
        turns: dict[int, list[RunRecord]] = {}
        for row in rows:
            turns.setdefault(row["turn_id"], []).append(_run(row))
        return [*turns.values()]

    async def close_interrupted(self, turn_id: int) -> None:
        """Mark the runs of a turn that an earlier process did not finish as ``cut_off``.
        ``turn_id`` 0 means the runs without a turn. Call it before the first run of this process
        begins."""
        await self._database.write(
            SqlStatement(
                "UPDATE runs SET stop = 'cut_off' WHERE turn_id = ? AND stop = ''", (turn_id,)
            )
        )

    def add_calls(self, run_id: str, calls: Sequence[ToolCall]) -> Awaitable[object]:
        """Store tool calls. A call replaces the row that was stored when the call began. The write
        is queued when this method returns."""
        return self._database.write(
            *(_insert_calls(run_id, calls[at : at + _CALLS]) for at in range(0, len(calls), _CALLS))
        )

    async def calls(self, run_id: str) -> list[ToolCall]:
        """Get the tool calls of a run, in order."""
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
                result=row["result"],
            )
            for row in rows
        ]


def _insert_calls(run_id: str, calls: Sequence[ToolCall]) -> SqlStatement:
    rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * len(calls))
    return SqlStatement(
        "INSERT INTO tool_calls (run_id, position, name, arguments, outcome, started, seconds, "
        f"result) VALUES {rows} ON CONFLICT (run_id, position) DO UPDATE "
        "SET outcome = excluded.outcome, seconds = excluded.seconds, result = excluded.result",
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
        call.result,
    )


def _run(row: Row) -> RunRecord:
    return RunRecord(
        run_id=row["run_id"],
        chat_key=chat_key_of(row["chat_key"]),
        code=row["code"],
        output=row["output"],
        stop=row["stop"],
        error=row["error"],
        started=row["started"],
        seconds=row["seconds"],
    )
