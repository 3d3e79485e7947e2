"""Stores the questions and tasks that wait for a person, so that they survive a restart."""

from collections.abc import Awaitable

from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.store.database import Database, SqlStatement, upsert
from nekro_core.store.limits import MAX_ID
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.values import WaitingRow


class WaitingRepository:
    """The rows of ``waiting``. The process also holds them in memory. Callers do not await writes:
    if a row cannot be written, it stays only in memory, and the log says so."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, row: WaitingRow) -> Awaitable[object]:
        """Insert a row, or replace the row with the same key. The write is queued when this method
        returns; the result need not be awaited."""
        return self._database.write(
            upsert(
                "waiting",
                {
                    "kind": row.kind,
                    "name": row.name[:MAX_ID],
                    "plugin": row.plugin,
                    "chat_key": row.chat_key,
                    "user_id": row.user_id,
                    "data": row.data,
                    "created": row.created,
                    "until": row.until,
                },
                key=("kind", "name"),
            ),
            failed=lambda: logger.error(
                "{} {} is not stored, a restart would lose it", row.kind, row.name
            ),
        )

    def forget(self, kind: str, name: str) -> Awaitable[object]:
        """Delete a row. The write is queued when this method returns."""
        return self._database.write(self.forgotten(kind, name))

    @staticmethod
    def forgotten(kind: str, name: str) -> SqlStatement:
        """Return the statement that deletes a row."""
        return SqlStatement(
            "DELETE FROM waiting WHERE kind = ? AND name = ?", (kind, name[:MAX_ID])
        )

    async def all(self, kind: str, chats: ChatScope = every_chat) -> list[WaitingRow]:
        """Get the rows of a kind that belong to some chats, or to no chat, oldest first."""
        rows = await self._database.read("SELECT * FROM waiting WHERE kind = ? ORDER BY id", kind)
        return [
            WaitingRow(
                kind=row["kind"],
                name=row["name"],
                plugin=row["plugin"],
                chat_key=row["chat_key"],
                user_id=row["user_id"],
                data=row["data"],
                created=row["created"],
                until=row["until"],
            )
            for row in rows
            # Crashes of the bot, for example, belong to no chat: their key is empty.
            if not row["chat_key"] or chats(ChatKey.parse(row["chat_key"]))
        ]
