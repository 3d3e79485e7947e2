"""Deletes old rows, slice by slice.

Each slice is one short write in the queue, so a message that arrives meanwhile waits a few
milliseconds at most. SQLite reuses the space of deleted rows; the file does not shrink.
"""

from nekro_core.store.database import Database, SqlStatement, Value
from nekro_core.store.messages import MessageRepository
from nekro_core.store.prompts import USED_WITHIN_S
from nekro_core.store.statistic_rows import DAY_S, KEPT_S

SLICE = 200
"""Number of rows that one write deletes. Such a write takes 2 to 5 ms on a small machine."""
MIN_MESSAGES_PER_CHAT = 200
"""Number of newest messages of each chat that are never deleted, even if they are old. Prompts show
these messages, and they tell the bot where a chat's history ends."""


class RowRetention:
    """Deletes old rows. Each method deletes at most one slice and returns ``after`` for the next
    call; 0 means that no slice is left. Times are seconds since 1970."""

    def __init__(self, database: Database, messages: MessageRepository) -> None:
        self._database = database
        self._messages = messages

    async def newest_message_time(self) -> float:
        """Get the platform's time of the newest message of a person; 0 if there is none."""
        rows = await self._database.read(
            "SELECT time FROM messages WHERE author = 'person' ORDER BY seq DESC LIMIT 1"
        )
        return float(rows[0]["time"]) if rows else 0.0

    async def messages(self, *, before: float, after: int = 0) -> int:
        """Delete messages older than ``before``, except the newest messages of each chat and the
        messages of stored timers."""
        rows = await self._database.read(
            "SELECT seq, time, chat_key FROM messages WHERE seq > ? ORDER BY seq LIMIT ?",
            after,
            SLICE,
        )
        old = [row["seq"] for row in rows if row["time"] < before]
        if old:
            await self._database.write(
                SqlStatement(
                    f"DELETE FROM messages WHERE seq IN ({_marks(old)}) "
                    "AND seq < (SELECT MIN(seq) FROM (SELECT seq FROM messages k "
                    "WHERE k.chat_key = messages.chat_key ORDER BY seq DESC LIMIT ?) newest) "
                    "AND NOT EXISTS (SELECT 1 FROM timers t WHERE t.record_seq = messages.seq)",
                    (*old, MIN_MESSAGES_PER_CHAT),
                ),
                SqlStatement(
                    f"DELETE FROM message_versions WHERE seq IN ({_marks(old)}) AND NOT EXISTS "
                    "(SELECT 1 FROM messages m WHERE m.seq = message_versions.seq)",
                    tuple(old),
                ),
                committed=lambda _: self._messages.changed_anywhere(),
            )
        # Messages are stored in the order of their arrival. So if no message of a slice is old, all
        # messages after the slice are too new to be deleted.
        return rows[-1]["seq"] if old and len(rows) == SLICE else 0

    async def turns(self, *, before: float, after: int = 0) -> int:
        """Delete ended turns that began earlier than ``before``, with their steps, prompts, runs
        and tool calls."""
        rows = await self._database.read(
            "SELECT id, started, running_chat FROM turns WHERE id > ? ORDER BY id LIMIT ?",
            after,
            SLICE // 4,
        )
        old: list[Value] = [
            row["id"] for row in rows if row["started"] < before and row["running_chat"] is None
        ]
        if old:
            marks, values = _marks(old), tuple(old)
            await self._database.write(
                SqlStatement(
                    "DELETE FROM tool_calls WHERE run_id IN "
                    f"(SELECT run_id FROM runs WHERE turn_id IN ({marks}))",
                    values,
                ),
                SqlStatement(f"DELETE FROM runs WHERE turn_id IN ({marks})", values),
                SqlStatement(f"DELETE FROM steps WHERE turn_id IN ({marks})", values),
                SqlStatement(f"DELETE FROM prompts WHERE turn_id IN ({marks})", values),
                SqlStatement(f"DELETE FROM turns WHERE id IN ({marks})", values),
                # Prompts keep lines about runs beside the records.
                committed=lambda _: self._messages.changed_anywhere(),
            )
        return rows[-1]["id"] if old and len(rows) == SLICE // 4 else 0

    async def prompt_parts(self, *, before: float, after: int = 0) -> int:
        """Delete parts of prompts that no turn since ``before`` has used. The method `turns`
        deletes the turns themselves."""
        rows = await self._database.read(
            "SELECT hash FROM prompt_parts WHERE used < ? LIMIT ?", before - USED_WITHIN_S, SLICE
        )
        names: list[Value] = [row["hash"] for row in rows]
        if names:
            # A part may have been used again since it was read above. The condition on ``used``
            # keeps such a part.
            sql = f"DELETE FROM prompt_parts WHERE hash IN ({_marks(names)}) AND used < ?"
            await self._database.write(SqlStatement(sql, (*names, before - USED_WITHIN_S)))
        return after + 1 if len(rows) == SLICE else 0

    async def deliveries(self, *, before: float, after: int = 0) -> int:
        """Delete deliveries older than ``before``, except those that are ``pending`` or
        ``sending``."""
        rows = await self._database.read(
            "SELECT id, created FROM deliveries WHERE id > ? ORDER BY id LIMIT ?", after, SLICE
        )
        old: list[Value] = [row["id"] for row in rows if row["created"] < before]
        if old:
            await self._database.write(
                SqlStatement(
                    f"DELETE FROM deliveries WHERE id IN ({_marks(old)}) "
                    "AND state NOT IN ('pending', 'sending')",
                    tuple(old),
                )
            )
        return rows[-1]["id"] if old and len(rows) == SLICE else 0

    async def uses(self, *, before: float, after: int = 0) -> int:
        """Delete plugins' requests to models that are older than ``before``."""
        rows = await self._database.read(
            "SELECT id, started FROM model_uses WHERE id > ? ORDER BY id LIMIT ?", after, SLICE
        )
        old: list[Value] = [row["id"] for row in rows if row["started"] < before]
        if old:
            await self._database.write(
                SqlStatement(f"DELETE FROM model_uses WHERE id IN ({_marks(old)})", tuple(old))
            )
        return rows[-1]["id"] if old and len(rows) == SLICE else 0

    async def statistics(self, *, before: float, after: int = 0) -> int:
        """Delete the rows of hours and days whose time in `KEPT_S` is over. ``before`` is the
        present time. The rows of months stay."""
        for (period, dimension), kept in KEPT_S.items():
            for table in ("statistics", "latencies"):
                rows = await self._database.read(
                    f"SELECT id FROM {table} WHERE period = ? AND dimension = ? AND start < ? "
                    "LIMIT ?",
                    period.value,
                    dimension.value,
                    int(before - kept - DAY_S),
                    SLICE,
                )
                if old := [row["id"] for row in rows]:
                    await self._database.write(
                        SqlStatement(f"DELETE FROM {table} WHERE id IN ({_marks(old)})", (*old,))
                    )
                    return after + 1
        return 0

    async def loose_runs(self, *, before: float, after: int = 0) -> int:
        """Delete runs without a turn that are older than ``before``, with their tool calls."""
        rows = await self._database.read(
            "SELECT run_id FROM runs WHERE turn_id = 0 AND started < ? LIMIT ?", before, SLICE
        )
        names: list[Value] = [row["run_id"] for row in rows]
        if names:
            marks, values = _marks(names), tuple(names)
            await self._database.write(
                SqlStatement(f"DELETE FROM tool_calls WHERE run_id IN ({marks})", values),
                SqlStatement(f"DELETE FROM runs WHERE run_id IN ({marks})", values),
            )
        return after + 1 if len(rows) == SLICE else 0


def _marks(values: list[Value]) -> str:
    return ", ".join("?" * len(values))
