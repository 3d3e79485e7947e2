"""Stores the timers that wake a chat's agent."""

from collections.abc import Sequence

from nekro_core.chat import ChatKey
from nekro_core.store.database import Database, Row, SqlStatement, upsert
from nekro_core.store.values import TimerRow


class TimerRepository:
    """The rows of ``timers``. The process also holds them in memory, so they are read only when the
    bot starts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[TimerRow]:
        """Get all rows, oldest first."""
        rows = await self._database.read("SELECT * FROM timers ORDER BY id")
        return [_row_of(row) for row in rows]

    async def put(self, row: TimerRow, *, replaced: Sequence[str] = ()) -> None:
        """Insert or replace a row, and delete the rows of the ids in ``replaced``, in one
        transaction. The write is queued before the first await."""
        await self._database.write(*(self.forgotten(each) for each in replaced), self.kept(row))

    async def delete(self, *timer_ids: str) -> None:
        """Delete rows."""
        await self._database.write(*(self.forgotten(each) for each in timer_ids))

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
