"""What is old goes, a slice at a time.

Each slice is one short write in line with all others, so a message that arrives meanwhile waits for
milliseconds at the most. SQLite writes new rows into the room that old ones leave; the file itself
does not shrink.
"""

from nekro_core.store.database import Database, SqlStatement, Value

SLICE = 200
"""Rows that go with one write: 2 to 5 ms on a small machine."""
MIN_MESSAGES_PER_CHAT = 200
"""Newest messages of each chat that stay however old they are: what prompts show, and by which the
bot knows where a chat's history ended."""


class RowRetention:
    """Deletes rows. Each method takes away at most a slice and says where to go on; 0 is the end.
    Times are seconds since 1970."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest_message_time(self) -> float:
        """The platform's time of the newest message that a person wrote, 0 where there is none."""
        rows = await self._database.read(
            "SELECT time FROM messages WHERE author = 'person' ORDER BY seq DESC LIMIT 1"
        )
        return float(rows[0]["time"]) if rows else 0.0

    async def messages(self, *, before: float, after: int = 0) -> int:
        """History lines from before that time, but for the newest of each chat and those that tell
        of a timer which is not over."""
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
                )
            )
        # Lines stand in the order of their arrival: behind a slice of new ones all are new.
        return rows[-1]["seq"] if old and len(rows) == SLICE else 0

    async def turns(self, *, before: float, after: int = 0) -> int:
        """Turns that ended before that time, with their steps, runs and calls of tools."""
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
                SqlStatement(f"DELETE FROM turns WHERE id IN ({marks})", values),
            )
        return rows[-1]["id"] if old and len(rows) == SLICE // 4 else 0

    async def deliveries(self, *, before: float, after: int = 0) -> int:
        """Deliveries from before that time, but for what is still to be sent."""
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
        """What plugins asked of models before that time."""
        rows = await self._database.read(
            "SELECT id, started FROM model_uses WHERE id > ? ORDER BY id LIMIT ?", after, SLICE
        )
        old: list[Value] = [row["id"] for row in rows if row["started"] < before]
        if old:
            await self._database.write(
                SqlStatement(f"DELETE FROM model_uses WHERE id IN ({_marks(old)})", tuple(old))
            )
        return rows[-1]["id"] if old and len(rows) == SLICE else 0

    async def loose_runs(self, *, before: float, after: int = 0) -> int:
        """Runs that no turn asked for, with their calls of tools."""
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
