"""Erases a person: their own rows, and their id in the rows of others.

What becomes of each table (docs/erasing.md says the same for people):

- ``messages``: theirs are deleted, and what the bot sent in turns that they woke. In others their
  id and name are replaced (`nekro_core.chat.redact`).
- ``users``: deleted. ``chats``: their private chats are deleted, with everything in them.
- ``turns``: lose their person. ``steps`` and ``model_uses``: the costs stay, without words or
  person.
- ``runs``, ``tool_calls``, ``deliveries`` of their turns: deleted; in others the id is blacked out.
- ``plugin_data``: values under their id are deleted, and entries about them inside other values.
- ``timers``: those that were set in their turns are deleted.
- ``waiting``: questions to them are deleted. ``accounts``: have nothing of a person.
"""

from collections.abc import Iterable

from nekro_core.chat import ChatKey, Media, Sender
from nekro_core.chat.redact import RedactionTarget
from nekro_core.store.database import Database, Rows, SqlStatement
from nekro_core.store.messages import MessageRepository
from nekro_core.store.people import ChatRepository, UserRepository
from nekro_core.store.person import Person, chat_key_in, is_one_of, like_pattern, runs_woken_by
from nekro_core.store.row_redactor import RowRedactor
from nekro_core.store.traces import PersonTraces, traces_of

_OF_A_CHAT = (
    "runs",
    "deliveries",
    "messages",
    "turns",
    "plugin_data",
    "timers",
    "waiting",
    "chats",
)


class PersonEraser:
    """Finds and deletes what the database has of a person."""

    def __init__(
        self,
        database: Database,
        *,
        messages: MessageRepository,
        chats: ChatRepository,
        users: UserRepository,
    ) -> None:
        self._database = database
        self._messages = messages
        self._chats = chats
        self._users = users
        self._redacting = RowRedactor(database, messages.changed)

    async def look(self, person: Person) -> PersonTraces:
        """Find what there is of a person. Raises `StoreUnavailable`."""
        return await traces_of(self._database, person)

    async def erase(self, person: Person, traces: PersonTraces) -> int:
        """Delete what `look` found and the id everywhere else. May be done again.

        Returns how many rows of others were changed.
        """
        forgotten = RedactionTarget(person.ids, traces.message_ids)
        statements = [*_of_private(traces.private), *_of_turns(person), *_of_person(person)]
        for chat_key in traces.chats:
            self._chats.forget(chat_key)
        for instance in person.instances:
            self._users.forget(instance, Sender(person.user_id))

        def committed(_: list[Rows]) -> None:
            for chat_key in traces.chats:
                self._messages.changed(chat_key)

        await self._database.write(*statements, committed=committed)
        return await self._redacting.redact(person, forgotten)

    async def still_used(self, chat_key: ChatKey, media: Media) -> bool:
        """Whether another person's message has this file of the chat."""
        name = media.path.replace("\\", "/").rpartition("/")[2]
        for table in ("messages", "deliveries"):
            if await self._database.read(
                f"SELECT 1 FROM {table} WHERE chat_key = ? AND segments LIKE ? ESCAPE '!' LIMIT 1",
                str(chat_key),
                like_pattern(name),
            ):
                return True
        return False

    async def forget_record(self, seq: int) -> None:
        """Delete one line of the history: the command that named the erased person."""
        await self._database.write(SqlStatement("DELETE FROM messages WHERE seq = ?", (seq,)))

    async def vacuum(self, *, anew: bool = True) -> None:
        """Remove deleted rows from the files: see `DatabaseEngine.vacuum`, and what the engine of
        the database says there."""
        await self._database.vacuum(anew=anew)


def _of_private(private: Iterable[ChatKey]) -> Iterable[SqlStatement]:
    for chat_key in private:
        key = (str(chat_key),)
        yield SqlStatement(
            "DELETE FROM tool_calls WHERE run_id IN (SELECT run_id FROM runs WHERE chat_key = ?)",
            key,
        )
        for table in _OF_A_CHAT:
            yield SqlStatement(f"DELETE FROM {table} WHERE chat_key = ?", key)
        yield SqlStatement(
            "UPDATE steps SET chat_key = '', user_id = '', reply = '', tail = '' "
            "WHERE chat_key = ?",
            key,
        )
        yield SqlStatement(
            "UPDATE model_uses SET chat_key = '', user_id = '', run_id = '' WHERE chat_key = ?", key
        )


def _of_turns(person: Person) -> Iterable[SqlStatement]:
    """What turns left behind that the person woke. While their runs are known, the rest first."""
    runs, values = runs_woken_by(person)
    for table in ("tool_calls", "deliveries", "messages", "runs"):
        yield SqlStatement(f"DELETE FROM {table} WHERE run_id IN ({runs})", values)
    there, beginnings = chat_key_in(person.instances)
    for table, setting in (
        ("steps", "user_id = '', reply = '', tail = ''"),
        ("model_uses", "user_id = '', run_id = ''"),
        ("turns", "user_id = ''"),
    ):
        yield SqlStatement(
            f"UPDATE {table} SET {setting} WHERE user_id = ? AND {there}",
            (person.user_id, *beginnings),
        )


def _of_person(person: Person) -> Iterable[SqlStatement]:
    theirs, values = is_one_of("instance", person.instances)
    yield SqlStatement(
        f"DELETE FROM messages WHERE {theirs} AND user_id = ? AND author = 'person'",
        (*values, person.user_id),
    )
    yield SqlStatement(
        f"DELETE FROM users WHERE {theirs} AND user_id = ?", (*values, person.user_id)
    )
    there, beginnings = chat_key_in(person.instances)
    yield SqlStatement(
        f"DELETE FROM waiting WHERE user_id = ? AND {there}", (person.user_id, *beginnings)
    )
    keys, spelt = is_one_of("user_key", sorted(person.ids))
    yield SqlStatement(
        f"DELETE FROM plugin_data WHERE {keys} AND (chat_key = '' OR {there})",
        (*spelt, *beginnings),
    )
    keys, spelt = is_one_of("store_key", sorted(person.ids))
    yield SqlStatement(
        f"DELETE FROM plugin_data WHERE {keys} AND (chat_key = '' OR {there})",
        (*spelt, *beginnings),
    )
