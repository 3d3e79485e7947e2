"""Erases a person: deletes their rows, and removes their id from the rows of other people.

What happens to each table (docs/erasing.md describes it for operators):

- ``messages``: the person's messages are deleted. The messages that the bot sent in turns that the
  person woke are deleted too. In other messages the person's id and name are replaced
  (`nekro_core.chat.redact`).
- ``users``: the person's rows are deleted. ``chats``: the person's private chats are deleted, with
  everything in them.
- ``turns``: the person's id is removed. ``steps`` and ``model_uses``: the costs stay; the texts and
  the person's id are removed.
- ``runs``, ``tool_calls``, ``deliveries``: the rows of the person's turns are deleted; in all other
  rows the id is replaced.
- ``plugin_data``: values stored under the person's id are deleted. Entries about the person inside
  other values are deleted too.
- ``timers``: timers that were set in the person's turns are deleted.
- ``statistics`` and ``latencies``: the sums stay, without the person's id and without the keys of
  their private chats.
- ``search_segments``, ``search_pages``, ``search_blocks``, ``search_changes``: the words of deleted
  and changed messages are removed, see `nekro_core.store.search_index`.
- ``prompts``: see `nekro_core.store.prompt_eraser`, also for ``prompt_parts`` and
  ``message_versions``.
- ``waiting``: questions to the person are deleted. ``accounts``: has no data of persons.
- ``audit_log``: the person's id is replaced in all values.
- ``memory_notes`` and ``memory_summaries``: see `nekro_core.store.memory_eraser`. ``memory_chats``
  has no data of persons, and ``memory_off`` only digests.
"""

from collections.abc import Iterable, Sequence

import anyio

from nekro_core.chat import ChatKey, Media, Sender
from nekro_core.chat.redact import RedactionTarget
from nekro_core.store.changes import ChangeTopic, announcement
from nekro_core.store.database import Database, Rows, SqlStatement
from nekro_core.store.memory_eraser import MemoryEraser
from nekro_core.store.messages import MessageRepository
from nekro_core.store.people import ChatRepository, UserRepository
from nekro_core.store.person import Person, chat_key_in, is_one_of, like_pattern, runs_woken_by
from nekro_core.store.prompt_eraser import PromptEraser
from nekro_core.store.row_redactor import RowRedactor
from nekro_core.store.search_index import SearchIndexRepository, of_erased_chat
from nekro_core.store.statistic_rows import Dimension, Period, anonymized
from nekro_core.store.statistics_counter import ERASURES
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
    """Finds and deletes a person's data in the database."""

    def __init__(
        self,
        database: Database,
        *,
        messages: MessageRepository,
        chats: ChatRepository,
        users: UserRepository,
        pause: anyio.Lock,
        prompts: PromptEraser,
        search: SearchIndexRepository,
        memory: MemoryEraser,
    ) -> None:
        """``pause`` is the lock `StatisticsCounter.pause`. While it is held, no rows are counted
        for the statistics."""
        self._database = database
        self._prompts = prompts
        self._search = search
        self._memory = memory
        self._messages = messages
        self._chats = chats
        self._users = users
        self._pause = pause
        self._redacting = RowRedactor(database, messages.changed)

    async def look(self, person: Person) -> PersonTraces:
        """Find a person's data. Raises `StoreUnavailable`."""
        return await traces_of(self._database, person)

    async def erase(self, person: Person, traces: PersonTraces) -> int:
        """Delete the data that `look` found, and remove the person's id from all other rows. May be
        repeated.

        Returns the number of rows of other people that were changed.
        """
        forgotten = RedactionTarget(person.ids, traces.message_ids)
        words = await self._prompts.look(person, traces)
        statements = [
            *_of_counters(self._database),
            *_of_private(traces.private),
            *_of_turns(person),
            *_of_person(person),
            *_of_statistics(person, traces.private),
        ]
        for chat_key in traces.chats:
            self._chats.forget(chat_key)
        for instance in person.instances:
            self._users.forget(instance, Sender(person.user_id))

        def committed(_: list[Rows]) -> None:
            for chat_key in traces.chats:
                self._messages.changed(chat_key, shrunk=True)

        async with self._pause, self._search.writing:
            await self._database.write(*statements, committed=committed)
        await self._prompts.erase(traces, forgotten, words)
        await self._memory.erase(person, traces, forgotten, words)
        changed = await self._redacting.redact(person, forgotten)
        # Prompts keep lines about runs beside the records. Runs of any chat may have been redacted.
        self._messages.changed_anywhere()
        await self._search.remove_of_erased(traces.chats)
        if told := announcement(self._database, ChangeTopic.ERASED):
            await self._database.write(*told)
        return changed

    async def still_used(self, chat_key: ChatKey, media: Media) -> bool:
        """Return whether a remaining message or delivery of the chat uses this file."""
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
        """Delete one record. It is the command with which the person requested the erasure."""
        await self._database.write(
            SqlStatement("DELETE FROM messages WHERE seq = ?", (seq,)),
            committed=lambda _: self._messages.changed_anywhere(),
        )

    async def vacuum(self, *, anew: bool = True) -> None:
        """Remove the data of deleted rows from the files; see `DatabaseEngine.vacuum` and its
        implementations."""
        await self._database.vacuum(anew=anew)


def _of_counters(database: Database) -> Iterable[SqlStatement]:
    """Add one to the number of erasures in a shared database. Then counts that other processes have
    made from the person's rows, and not stored yet, are refused (see `StatisticsCounter`). This
    statement must be the first: it waits until transactions that are just storing counts are over,
    so that the next statements also change these counts."""
    if database.shared:
        yield SqlStatement(
            "INSERT INTO counted (name, through) VALUES (?, 1) "
            "ON CONFLICT (name) DO UPDATE SET through = counted.through + 1",
            (ERASURES,),
        )


def _of_private(private: Iterable[ChatKey]) -> Iterable[SqlStatement]:
    for chat_key in private:
        key = (str(chat_key),)
        yield SqlStatement(
            "DELETE FROM tool_calls WHERE run_id IN (SELECT run_id FROM runs WHERE chat_key = ?)",
            key,
        )
        for table in _OF_A_CHAT:
            yield SqlStatement(f"DELETE FROM {table} WHERE chat_key = ?", key)
        yield from of_erased_chat(chat_key)
        yield SqlStatement(
            "UPDATE steps SET chat_key = '', user_id = '', reply = '', tail = '' "
            "WHERE chat_key = ?",
            key,
        )
        yield SqlStatement(
            "UPDATE model_uses SET chat_key = '', user_id = '', run_id = '' WHERE chat_key = ?", key
        )


def _of_turns(person: Person) -> Iterable[SqlStatement]:
    """Delete the runs of all turns that the person woke, with their calls, deliveries and messages.
    Rows of ``runs`` are deleted last, because the other deletions find their rows through ``runs``.
    Then remove the person's id and all texts from the rows that are kept for their costs."""
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


def _of_statistics(person: Person, private: Sequence[ChatKey]) -> Iterable[SqlStatement]:
    """Add the sums of the person and of their private chats to sums that name no person and no
    chat."""
    periods = f"period IN ({', '.join(repr(each.value) for each in Period)})"
    names = {
        Dimension.PERSON: [f"{instance}:{person.user_id}" for instance in person.instances],
        Dimension.CHAT: [str(chat_key) for chat_key in private],
    }
    for dimension, found in names.items():
        if found:
            theirs, values = is_one_of("name", found)
            where = f"{periods} AND dimension = ? AND {theirs}"
            yield from anonymized(where, (dimension.value, *values))
    beginnings = [f"{instance}-" for instance in person.instances]
    there = " OR ".join(f"substr(name, 1, {len(each)}) = ?" for each in beginnings)
    yield SqlStatement(
        f"DELETE FROM statistics WHERE period = ? AND dimension = ? AND member = ? AND ({there})",
        (Period.EVER.value, Dimension.MEMBER.value, person.user_id, *beginnings),
    )
    for chat_key in private:
        yield SqlStatement(
            "DELETE FROM statistics WHERE period = ? AND dimension = ? AND name = ?",
            (Period.EVER.value, Dimension.MEMBER.value, str(chat_key)),
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
