"""Reads the turn log for operators: who woke a turn, how it ended, what it cost and which code it
ran."""

from typing import Literal

from nekro_core.chat import ChatKey, RunRecord
from nekro_core.store.database import Database, Row
from nekro_core.store.messages import SELECT as RECORDS
from nekro_core.store.messages import record_of
from nekro_core.store.runs import RunRepository
from nekro_core.store.turns import TurnRepository
from nekro_core.store.values import PRICED, LoggedTurn, Step, TurnFilter, TurnRow, Usage

MAX_LISTED = 500


class TurnLogRepository:
    """Reads the turns of all chats on all platforms."""

    def __init__(self, database: Database, *, turns: TurnRepository, runs: RunRepository) -> None:
        self._database = database
        self._turns = turns
        self._runs = runs

    async def newest(
        self, *, chat_key: ChatKey | None = None, before: int = 0, limit: int = 50
    ) -> list[LoggedTurn]:
        """Get the newest turns, newest first, at most 500. With ``before``, the id of a turn, only
        older turns."""
        turns = await self._turns.newest(
            chat_key=chat_key, before=before, limit=max(1, min(limit, MAX_LISTED))
        )
        return await self._whole(turns)

    async def listed(
        self, wanted: TurnFilter, *, before: int = 0, limit: int = 50
    ) -> list[LoggedTurn]:
        """Get the newest turns that a filter describes, newest first, at most 500. With ``before``,
        the id of a turn, only older turns."""
        turns = await self._turns.newest(
            wanted_turns=wanted, before=before, limit=max(1, min(limit, MAX_LISTED))
        )
        return await self._whole(turns)

    async def different(self, column: Literal["stop", "model"]) -> list[str]:
        """Get all reasons for which turns ended, or all models that turns used. Each is listed
        once."""
        return await self._turns.different(column)

    async def one(self, turn_id: int) -> tuple[LoggedTurn, list[Step], list[RunRecord]] | None:
        """Get a turn with its steps and its runs, in order; None if there is no such turn."""
        turn = await self._turns.get(turn_id)
        if turn is None:
            return None
        (logged,) = await self._whole([turn])
        return logged, await self._turns.steps(turn_id), await self._runs.of_turn(turn_id)

    async def spent(self, *, since: float) -> Usage:
        """Get the total usage of all chats since this time (seconds since 1970)."""
        return await self._turns.usage(since=since)

    async def _whole(self, turns: list[TurnRow]) -> list[LoggedTurn]:
        if not turns:
            return []
        marks = ", ".join("?" * len(turns))
        triggers = await self._database.read(
            f"{RECORDS} WHERE seq IN ({marks})", *(turn.trigger_seq for turn in turns)
        )
        sums = await self._database.read(
            "SELECT turn_id, COUNT(*) AS steps, SUM(prompt_tokens) AS prompt, "
            "SUM(completion_tokens) AS completion, SUM(cost) AS cost, MAX(model) AS model, "
            f"{PRICED} FROM steps WHERE turn_id IN ({marks}) GROUP BY turn_id",
            *(turn.turn_id for turn in turns),
        )
        records = {row["seq"]: record_of(row) for row in triggers}
        costs = {row["turn_id"]: row for row in sums}
        return [
            LoggedTurn(
                turn=turn,
                asked=records.get(turn.trigger_seq),
                usage=_usage(costs.get(turn.turn_id)),
                model=costs[turn.turn_id]["model"] if turn.turn_id in costs else "",
            )
            for turn in turns
        ]


def _usage(row: Row | None) -> Usage:
    if row is None:
        return Usage()
    return Usage(
        turns=1,
        steps=int(row["steps"]),
        prompt_tokens=int(row["prompt"]),
        completion_tokens=int(row["completion"]),
        cost=row["cost"],
        published_cost=float(row["published_cost"]),
        unpriced=int(row["unpriced"]),
    )
