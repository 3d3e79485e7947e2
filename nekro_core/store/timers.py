"""Stores the timers that wake a chat's agent."""

from collections.abc import Sequence

from nekro_core.chat import ChatKey
from nekro_core.store.changes import ChangeTopic, announcement
from nekro_core.store.database import Database, Row, SqlStatement, WriteGuard, upsert
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.values import TimerRow


class TimerRepository:
    """The rows of ``timers``. The process also holds these rows in memory, so it reads them only
    when the bot starts, or when another process has changed them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, chats: ChatScope = every_chat) -> list[TimerRow]:
        """Get the rows of the chats for which ``chats`` returns True, oldest first."""
        rows = await self._database.read("SELECT * FROM timers ORDER BY id")
        return [found for found in map(_row_of, rows) if chats(found.chat_key)]

    async def get(self, timer_id: str) -> TimerRow | None:
        """Get one row; None if there is none."""
        rows = await self._database.read("SELECT * FROM timers WHERE timer_id = ?", timer_id)
        return _row_of(rows[0]) if rows else None

    async def put(self, row: TimerRow, *, replaced: Sequence[str] = ()) -> None:
        """Insert or replace a row, and delete the rows whose ids are in ``replaced``, in one
        transaction. The write is queued before this method first waits."""
        await self._database.write(
            *(self.forgotten(each) for each in replaced), self.kept(row), *self.told(row.timer_id)
        )

    async def delete(self, *timer_ids: str) -> None:
        """Delete rows."""
        told = (statement for each in timer_ids for statement in self.told(each))
        await self._database.write(*(self.forgotten(each) for each in timer_ids), *told)

    def told(self, timer_id: str) -> list[SqlStatement]:
        """Return the statements that announce to other processes that a timer has changed."""
        return announcement(self._database, ChangeTopic.TIMERS, timer_id)

    @staticmethod
    def claim(before: TimerRow, after: TimerRow) -> WriteGuard:
        """Return the condition under which the report of a due timer is stored: the stored row is
        still ``before``. If so, the condition's statement also changes the row to ``after``. So of
        several processes only one reports a due time, and none reports a timer that another process
        has changed or deleted."""
        return WriteGuard(
            SqlStatement(
                "UPDATE timers SET state = ?, due = ?, told_due = ?, record_seq = ? "
                "WHERE timer_id = ? AND state = ? AND due = ? RETURNING timer_id",
                (
                    after.state,
                    after.due,
                    after.told_due,
                    after.record_seq,
                    before.timer_id,
                    before.state,
                    before.due,
                ),
            )
        )

    @staticmethod
    def kept(row: TimerRow) -> SqlStatement:
        """Return the statement that inserts or replaces a row."""
        return upsert(
            "timers",
            {
                "timer_id": row.timer_id,
                "chat_key": str(row.chat_key),
                "kind": row.kind,
                "state": row.state,
                "text": row.text,
                "title": row.title,
                "cron": row.cron,
                "timezone": row.timezone,
                "workdays": row.workdays,
                "due": row.due,
                "told_due": row.told_due,
                "record_seq": row.record_seq,
                "created": row.created,
            },
            key=("timer_id",),
            fixed=("chat_key", "kind", "created"),
        )

    @staticmethod
    def forgotten(timer_id: str) -> SqlStatement:
        """Return the statement that deletes a row."""
        return SqlStatement("DELETE FROM timers WHERE timer_id = ?", (timer_id,))

    @staticmethod
    def sweep_statement() -> SqlStatement:
        """Return the statement that deletes finished timers. A timer is deleted only when the
        chat's agent has handled the record that reports it."""
        return SqlStatement(
            "DELETE FROM timers WHERE state = 'over' AND record_seq <= "
            "(SELECT handled_seq FROM chats WHERE chats.chat_key = timers.chat_key)"
        )


def _row_of(row: Row) -> TimerRow:
    return TimerRow(
        timer_id=row["timer_id"],
        chat_key=ChatKey.parse(row["chat_key"]),
        kind=row["kind"],
        state=row["state"],
        text=row["text"],
        title=row["title"],
        cron=row["cron"],
        timezone=row["timezone"],
        workdays=row["workdays"],
        due=row["due"],
        told_due=row["told_due"],
        record_seq=row["record_seq"],
        created=row["created"],
    )
