"""Times at which chats are to be woken."""

from nekro_core.chat import ChatKey
from nekro_core.store.database import Database, Row, SqlStatement
from nekro_core.store.values import TimerRow

_COLUMNS = (
    "timer_id, chat_key, kind, state, text, title, cron, timezone, workdays, due, told_due, "
    "record_seq, created"
)


class TimerRepository:
    """Rows that one process holds in memory too; this is what it finds again at the next start."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[TimerRow]:
        """Every row, in the order in which they were made."""
        rows = await self._database.read(f"SELECT {_COLUMNS} FROM timers ORDER BY id")
        return [_row_of(row) for row in rows]

    async def put(self, row: TimerRow) -> None:
        """Keep a row as it is now. Its place in line is taken before the first await."""
        await self._database.write(self.kept(row))

    async def delete(self, *timer_ids: str) -> None:
        """Forget rows."""
        await self._database.write(*(self.forgotten(each) for each in timer_ids))

    @staticmethod
    def kept(row: TimerRow) -> SqlStatement:
        """The statement that keeps a row."""
        return SqlStatement(
            f"INSERT INTO timers ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (timer_id) DO UPDATE SET state = excluded.state, text = excluded.text, "
            "title = excluded.title, cron = excluded.cron, timezone = excluded.timezone, "
            "workdays = excluded.workdays, due = excluded.due, told_due = excluded.told_due, "
            "record_seq = excluded.record_seq",
            (
                row.timer_id,
                str(row.chat_key),
                row.kind,
                row.state,
                row.text,
                row.title,
                row.cron,
                row.timezone,
                row.workdays,
                row.due,
                row.told_due,
                row.record_seq,
                row.created,
            ),
        )

    @staticmethod
    def forgotten(timer_id: str) -> SqlStatement:
        """The statement that forgets a row."""
        return SqlStatement("DELETE FROM timers WHERE timer_id = ?", (timer_id,))

    @staticmethod
    def sweep_statement() -> SqlStatement:
        """The statement that forgets what is over and was dealt with by the chat's agent."""
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
