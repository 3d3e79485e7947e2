"""Stores three things: up to which record notes were made in each chat, which chats share their
notes, and about which people the bot must remember nothing."""

from dataclasses import dataclass

from nekro_core.chat import ChatKey
from nekro_core.store.changes import ChangeTopic, announcement
from nekro_core.store.database import Database, Row, SqlStatement, upsert

MAX_LINKED = 50
"""Maximum number of chats that share their notes. Each prompt reads the notes of all of them."""
_ALL = ""
"""The chat key of the row with the newest record from before the memory existed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProgress:
    """The state of the memory of a chat.

    Attributes:
        drawn_through: Notes were made from the records up to this number.
        link: The name of the link. All chats with the same link share their notes. Empty if the
            chat has no link.
    """

    drawn_through: int = 0
    link: str = ""


class MemoryChatRepository:
    """The rows of ``memory_chats`` and ``memory_off``. There are few rows, which are read into
    memory when the bot starts, and when another process has changed them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> dict[ChatKey, MemoryProgress]:
        """Get the rows of all chats."""
        rows = await self._database.read("SELECT * FROM memory_chats WHERE chat_key <> ?", _ALL)
        return {ChatKey.parse(row["chat_key"]): _progress_of(row) for row in rows}

    async def get(self, chat_key: ChatKey) -> MemoryProgress | None:
        """Get the row of a chat; None if there is none."""
        rows = await self._database.read(
            "SELECT * FROM memory_chats WHERE chat_key = ?", str(chat_key)
        )
        return _progress_of(rows[0]) if rows else None

    async def begin(self, newest_seq: int) -> int:
        """Return the number of the newest record from before the memory existed. The first call
        stores ``newest_seq`` as this number."""
        await self._database.write(
            SqlStatement(
                "INSERT INTO memory_chats (chat_key, drawn_through) VALUES (?, ?) "
                "ON CONFLICT (chat_key) DO NOTHING",
                (_ALL, newest_seq),
            )
        )
        (row,) = await self._database.read(
            "SELECT drawn_through FROM memory_chats WHERE chat_key = ?", _ALL
        )
        return int(row["drawn_through"])

    async def set_drawn(self, chat_key: ChatKey, through: int) -> None:
        """Store that notes were made from the records of a chat up to this number. If a higher
        number is stored already, nothing changes."""
        await self._database.write(
            SqlStatement(
                "INSERT INTO memory_chats (chat_key, drawn_through) VALUES (?, ?) "
                "ON CONFLICT (chat_key) DO UPDATE SET drawn_through = excluded.drawn_through "
                "WHERE excluded.drawn_through > memory_chats.drawn_through",
                (str(chat_key), through),
            ),
            *self._told(chat_key),
        )

    async def set_link(self, chat_key: ChatKey, name: str) -> None:
        """Store the name of a chat's link. An empty name removes the link."""
        await self._database.write(
            upsert("memory_chats", {"chat_key": str(chat_key), "link": name}, key=("chat_key",)),
            *self._told(chat_key),
        )

    async def off(self) -> set[str]:
        """Get the digests of all people about whom nothing is remembered."""
        return {row["digest"] for row in await self._database.read("SELECT digest FROM memory_off")}

    async def set_off(self, digest: str, *, off: bool, now: float) -> None:
        """Store that nothing is remembered about a person (``off``), or that the bot may remember
        again."""
        if off:
            statement = upsert("memory_off", {"digest": digest, "since": now}, key=("digest",))
        else:
            statement = SqlStatement("DELETE FROM memory_off WHERE digest = ?", (digest,))
        told = announcement(self._database, ChangeTopic.MEMORY_OFF)
        await self._database.write(statement, *told)

    def _told(self, chat_key: ChatKey) -> list[SqlStatement]:
        return announcement(self._database, ChangeTopic.MEMORY_CHATS, str(chat_key))


def _progress_of(row: Row) -> MemoryProgress:
    return MemoryProgress(drawn_through=int(row["drawn_through"]), link=row["link"])
