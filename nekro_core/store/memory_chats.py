"""Stores three things: up to which record notes were made in each chat, which chats share their
notes, and about which people the bot must remember nothing."""

from dataclasses import dataclass

from nekro_core.chat import ChatKey
from nekro_core.store.database import Database, SqlStatement, upsert

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
    memory when the bot starts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> dict[ChatKey, MemoryProgress]:
        """Get the rows of all chats."""
        rows = await self._database.read("SELECT * FROM memory_chats WHERE chat_key <> ?", _ALL)
        return {
            ChatKey.parse(row["chat_key"]): MemoryProgress(
                drawn_through=int(row["drawn_through"]),
                link=row["link"],
            )
            for row in rows
        }

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

    async def put(self, chat_key: ChatKey, progress: MemoryProgress) -> None:
        """Store the row of a chat."""
        await self._database.write(
            upsert(
                "memory_chats",
                {
                    "chat_key": str(chat_key),
                    "drawn_through": progress.drawn_through,
                    "link": progress.link,
                },
                key=("chat_key",),
            )
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
        await self._database.write(statement)
