"""Reads rows for an export of the bot's data, and adds rows of an import."""

from dataclasses import dataclass

from nekro_core.chat import ChatKey, Record
from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.messages import SELECT, MessageRepository, record_of
from nekro_core.store.pending_seq import final_seq
from nekro_core.store.people import ChatRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPerson:
    """A person whom the bot knows under an instance."""

    instance: str
    user_id: str
    name: str


class TransferRows:
    """The rows of chats, people and messages, for exports and imports."""

    def __init__(
        self, database: Database, *, chats: ChatRepository, messages: MessageRepository
    ) -> None:
        self._database = database
        self._chats = chats
        self._messages = messages

    async def chats(self) -> list[tuple[ChatKey, str]]:
        """Return all chats with their names, in the order of their keys."""
        rows = await self._database.read("SELECT chat_key, name FROM chats ORDER BY chat_key")
        return [(ChatKey.parse(row["chat_key"]), row["name"]) for row in rows]

    async def people(self) -> list[KnownPerson]:
        """Return all people, in the order in which they were first stored."""
        rows = await self._database.read("SELECT instance, user_id, name FROM users ORDER BY id")
        return [
            KnownPerson(instance=row["instance"], user_id=row["user_id"], name=row["name"])
            for row in rows
        ]

    async def messages(self, after: int, limit: int) -> list[tuple[Record, str]]:
        """Return at most ``limit`` records with a greater number than ``after``, of all chats,
        oldest first. Each has the id by which duplicates are found; empty if it has none."""
        rows = await self._database.read(
            f"{SELECT} WHERE seq > ? ORDER BY seq LIMIT ?", after, limit
        )
        return [(record_of(row), row["unique_id"] or "") for row in rows]

    async def has_chat(self, chat_key: ChatKey) -> bool:
        """Return whether a chat is stored."""
        return bool(
            await self._database.read("SELECT 1 FROM chats WHERE chat_key = ?", str(chat_key))
        )

    async def add_chat(self, chat_key: ChatKey, name: str) -> None:
        """Store a chat, and its name if it has none yet."""
        await self._database.write(
            *self._chats.seen(chat_key, "" if self._chats.name(chat_key) else name)
        )

    async def person(self, instance: str, user_id: str) -> KnownPerson | None:
        """Return a person; None if the person is not known."""
        rows = await self._database.read(
            "SELECT name FROM users WHERE instance = ? AND user_id = ?", instance, user_id
        )
        if not rows:
            return None
        return KnownPerson(instance=instance, user_id=user_id, name=rows[0]["name"])

    async def add_person(self, person: KnownPerson, now: float) -> None:
        """Store a person, unless the person is known."""
        await self._database.write(
            SqlStatement(
                "INSERT INTO users (instance, user_id, name, first_seen) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (person.instance, person.user_id, person.name, now),
            )
        )

    async def message_numbered_by(self, instance: str, unique_id: str) -> Record | None:
        """Return the record of an instance with this unique id
        (`nekro_core.store.messages.unique_id_of`); None if there is none."""
        rows = await self._database.read(
            f"{SELECT} WHERE instance = ? AND unique_id = ?", instance, unique_id
        )
        return record_of(rows[0]) if rows else None

    async def messages_at(self, chat_key: ChatKey, time: float) -> list[Record]:
        """Return the records of a chat that were written at exactly this time."""
        rows = await self._database.read(
            f"{SELECT} WHERE time = ? AND chat_key = ? ORDER BY seq", time, str(chat_key)
        )
        return [record_of(row) for row in rows]

    async def add_message(self, record: Record, unique_id: str) -> bool:
        """Store a record with the next number, and note that it needs no answer. Returns False if
        the id exists already."""
        (*_, added) = await self._messages.add(
            record, unique_id=unique_id or None, before=self._chats.seen(record.chat_key)
        )
        await self._chats.mark_handled(record.chat_key, final_seq(record.seq))
        return bool(added)
