"""Forgetting a person: every row that is theirs, and their id in everybody else's.

What is where, and what becomes of it (docs/erasing.md has the same list for people):

- ``messages``: theirs are deleted, with those that the bot sent in turns which they woke; in others
  they are nobody (`nekro_core.chat.redact`).
- ``users``: deleted. ``chats``: their private ones are, with everything in them.
- ``turns``: nobody's. ``steps`` and ``model_uses``: what it cost stays, without words or person.
- ``runs``, ``tool_calls``, ``deliveries`` of their turns: deleted; in others the id is blacked out.
- ``plugin_data``: what is kept under their id is deleted, entries of other values too.
- ``timers``: those that were set in turns of theirs are deleted.
- ``waiting``: questions to them are deleted. ``accounts``: no person's.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from nekro_core.chat import (
    ChatKey,
    ChatKind,
    File,
    Forward,
    Image,
    Media,
    Segments,
    Sender,
    Video,
    Voice,
    decode_segments,
    encode_segments,
)
from nekro_core.chat.redact import SHORTEST, Forgotten, spellings
from nekro_core.store.database import Database, Row, Rows, Statement, Value
from nekro_core.store.messages import Messages
from nekro_core.store.people import Chats, Users

_SLICE = 20_000
"""Rows of the history that are looked through at a time: 30 ms in which nothing else is read."""
_TEXTS = {
    "runs": ("run_id", ("code", "output", "error")),
    "tool_calls": ("id", ("arguments", "outcome")),
    "steps": ("id", ("reply", "tail")),
    "timers": ("id", ("text", "title")),
    "waiting": ("id", ("data",)),
}
"""Texts of others' in which an id may stand: by table, its key and the columns."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who is meant: an id on a platform. ``instances`` are our accounts there."""

    adapter: str
    user_id: str
    instances: tuple[str, ...]

    @property
    def ids(self) -> frozenset[str]:
        """How the id is written down."""
        return spellings(self.user_id, {self.adapter, *self.instances})


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What there is of a person. ``private`` are chats with them alone, ``shared`` others where
    they wrote or woke a turn, ``worked`` those of them in which code ran for them. ``media`` are
    files by chat and path, ``timers`` their timers by chat and id, ``waiting`` deliveries that are
    not decided yet."""

    private: tuple[ChatKey, ...] = ()
    shared: tuple[ChatKey, ...] = ()
    worked: tuple[ChatKey, ...] = ()
    messages: int = 0
    turns: int = 0
    media: tuple[tuple[ChatKey, Media], ...] = ()
    message_ids: frozenset[str] = frozenset()
    timers: tuple[tuple[ChatKey, str], ...] = ()
    waiting: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def chats(self) -> tuple[ChatKey, ...]:
        """All of them."""
        return (*self.private, *self.shared)


class Erasing:
    """Looks for a person in the database, and forgets them."""

    def __init__(
        self, database: Database, *, messages: Messages, chats: Chats, users: Users
    ) -> None:
        self._database = database
        self._messages = messages
        self._chats = chats
        self._users = users

    async def look(self, person: Person) -> Traces:
        """What there is. Raises `StoreUnavailable`."""
        read, user = self._database.read, person.user_id
        theirs, values = _in("instance", person.instances)
        wrote = await read(
            f"SELECT DISTINCT chat_key FROM messages WHERE {theirs} AND user_id = ? "
            "AND author = 'person'",
            *values,
            user,
        )
        within, beginnings = _within(person.instances)
        woke = await read(
            f"SELECT DISTINCT chat_key FROM turns WHERE user_id = ? AND {within}", user, *beginnings
        )
        known = await read(f"SELECT chat_key FROM chats WHERE {theirs}", *values)
        keys = {ChatKey.parse(row["chat_key"]) for row in (*wrote, *woke)}
        keys |= {
            key
            for key in (ChatKey.parse(row["chat_key"]) for row in known)
            if key.kind is ChatKind.PRIVATE and key.native_id == user
        }
        private = tuple(sorted(key for key in keys if key.kind is ChatKind.PRIVATE))
        shared = tuple(sorted(keys.difference(private)))
        rows, (turns,) = (
            await self._said(person, private),
            await read(
                f"SELECT COUNT(*) AS number FROM turns WHERE user_id = ? AND {within}",
                user,
                *beginnings,
            ),
        )
        names = await read(f"SELECT name FROM users WHERE {theirs} AND user_id = ?", *values, user)
        return Traces(
            private=private,
            shared=shared,
            worked=await self._worked(person, shared),
            messages=sum(row["author"] == "person" for row in rows),
            turns=int(turns["number"]),
            media=tuple(_media(rows)),
            message_ids=frozenset(str(row["message_id"]) for row in rows if row["message_id"]),
            timers=await self._timers(person, private),
            waiting=await self._waiting(person, private),
            names=tuple(row["name"] for row in names if row["name"]),
        )

    async def erase(self, person: Person, traces: Traces) -> int:
        """Forget what `look` found, and the id wherever else it stands; how many rows of others
        were changed. May be done again."""
        forgotten = Forgotten(person.ids, traces.message_ids)
        statements = [*_of_private(traces.private), *_of_turns(person), *_of_person(person)]
        for chat_key in traces.chats:
            self._chats.forget(chat_key)
        for instance in person.instances:
            self._users.forget(instance, Sender(person.user_id))
        await self._database.write(*statements, committed=self._tell(traces.chats))
        changed = await self._redact_history(person, forgotten)
        changed += await self._redact_texts(person, forgotten)
        return changed + await self._redact_plugins(person, forgotten)

    async def still_used(self, chat_key: ChatKey, media: Media) -> bool:
        """Whether a file of a chat is part of what others said."""
        name = media.path.replace("\\", "/").rpartition("/")[2]
        for table in ("messages", "deliveries"):
            if await self._database.read(
                f"SELECT 1 FROM {table} WHERE chat_key = ? AND segments LIKE ? ESCAPE '!' LIMIT 1",
                str(chat_key),
                _like(name),
            ):
                return True
        return False

    async def forget_record(self, seq: int) -> None:
        """Delete one line of the history: a command that names a person who was erased."""
        await self._database.write(Statement("DELETE FROM messages WHERE seq = ?", (seq,)))

    async def scrub(self, *, anew: bool = True) -> None:
        """Take what was deleted out of the files too. SQLite overwrites freed pages by itself
        (``secure_delete``); ``anew`` writes the file once more, so that what earlier versions left
        goes as well (1 s of the processor for each 150 MB, and nothing else is read meanwhile), and
        the write-ahead log is emptied. On PostgreSQL, dead rows are given up to be written over."""
        if anew:
            await self._database.read("VACUUM")
        if self._database.dialect == "sqlite":
            await self._database.read("PRAGMA wal_checkpoint(TRUNCATE)")

    def _tell(self, chats: Iterable[ChatKey]) -> Callable[[list[Rows]], None]:
        def committed(_: list[Rows]) -> None:
            for chat_key in chats:
                self._messages.changed(chat_key)

        return committed

    async def _said(self, person: Person, private: Sequence[ChatKey]) -> Rows:
        """Rows of the history that go, with those of deliveries, for their media and ids."""
        runs, of_runs = _their_runs(person)
        theirs, values = _in("instance", person.instances)
        found: list[Row] = [
            *await self._database.read(
                "SELECT chat_key, author, message_id, segments FROM messages WHERE "
                f"({theirs} AND user_id = ? AND author = 'person') OR run_id IN ({runs})",
                *values,
                person.user_id,
                *of_runs,
            ),
            *await self._database.read(
                "SELECT chat_key, '' AS author, '' AS message_id, segments FROM deliveries "
                f"WHERE run_id IN ({runs})",
                *of_runs,
            ),
        ]
        for chat_key in private:
            found += await self._database.read(
                "SELECT chat_key, '' AS author, message_id, segments FROM messages "
                "WHERE chat_key = ? AND author <> 'person'",
                str(chat_key),
            )
        return found

    async def _worked(self, person: Person, shared: Sequence[ChatKey]) -> tuple[ChatKey, ...]:
        runs, values = _their_runs(person)
        rows = await self._database.read(
            f"SELECT DISTINCT chat_key FROM runs WHERE run_id IN ({runs}) AND code <> ''", *values
        )
        there = {row["chat_key"] for row in rows}
        return tuple(key for key in shared if str(key) in there)

    async def _timers(
        self, person: Person, private: Sequence[ChatKey]
    ) -> tuple[tuple[ChatKey, str], ...]:
        """Timers of private chats, and those that came to be while a run of theirs was at work in
        its chat, where one turn is taken at a time."""
        runs, values = _their_runs(person)
        rows = await self._database.read(
            "SELECT chat_key, timer_id FROM timers WHERE EXISTS (SELECT 1 FROM runs "
            f"WHERE runs.chat_key = timers.chat_key AND runs.run_id IN ({runs}) AND timers.created "
            "BETWEEN runs.started - 1 AND runs.started + runs.seconds + 1)",
            *values,
        )
        keys = {str(key) for key in private}
        mine = [
            row
            for row in await self._database.read("SELECT chat_key, timer_id FROM timers")
            if row["chat_key"] in keys
        ]
        found = {row["timer_id"]: ChatKey.parse(row["chat_key"]) for row in (*rows, *mine)}
        return tuple((chat_key, timer_id) for timer_id, chat_key in found.items())

    async def _waiting(self, person: Person, private: Sequence[ChatKey]) -> tuple[str, ...]:
        runs, values = _their_runs(person)
        rows = await self._database.read(
            "SELECT chat_key, delivery_id FROM deliveries WHERE state IN ('pending', 'unknown') "
            f"AND run_id IN ({runs})",
            *values,
        )
        found = [row["delivery_id"] for row in rows]
        for chat_key in private:
            rows = await self._database.read(
                "SELECT delivery_id FROM deliveries WHERE state IN ('pending', 'unknown') "
                "AND chat_key = ?",
                str(chat_key),
            )
            found += [row["delivery_id"] for row in rows]
        return tuple(dict.fromkeys(found))

    async def _redact_history(self, person: Person, forgotten: Forgotten) -> int:
        changed = 0
        within, beginnings = _within(person.instances)
        for table, key in (("messages", "seq"), ("deliveries", "id")):
            (last,) = await self._database.read(f"SELECT MAX({key}) AS last FROM {table}")
            for begin in range(0, int(last["last"] or 0) + 1, _SLICE):
                rows = await self._database.read(
                    f"SELECT {key} AS at, chat_key, segments FROM {table} WHERE {key} >= ? "
                    f"AND {key} < ? AND {within} AND (segments LIKE ? ESCAPE '!' "
                    'OR segments LIKE \'%"type":"reply"%\')',
                    begin,
                    begin + _SLICE,
                    *beginnings,
                    _like(person.user_id),
                )
                changed += await self._rewrite(table, key, rows, forgotten)
        return changed

    async def _rewrite(self, table: str, key: str, rows: Rows, forgotten: Forgotten) -> int:
        statements, chats = [], set()
        for row in rows:
            before = decode_segments(row["segments"])
            after: Segments = forgotten.segments(before)
            if after != before:
                chats.add(ChatKey.parse(row["chat_key"]))
                sql = f"UPDATE {table} SET segments = ? WHERE {key} = ?"
                statements.append(Statement(sql, (encode_segments(after), row["at"])))
        if statements:
            await self._database.write(*statements, committed=self._tell(chats))
        return len(statements)

    async def _redact_texts(self, person: Person, forgotten: Forgotten) -> int:
        if len(person.user_id) < SHORTEST:
            return 0
        changed = 0
        for table, (key, columns) in _TEXTS.items():
            like = " OR ".join(f"{column} LIKE ? ESCAPE '!'" for column in columns)
            rows = await self._database.read(
                f"SELECT {key} AS at, {', '.join(columns)} FROM {table} WHERE {like}",
                *[_like(person.user_id)] * len(columns),
            )
            changed += await self._replace(table, key, columns, rows, forgotten)
        return changed

    async def _replace(
        self, table: str, key: str, columns: Sequence[str], rows: Rows, forgotten: Forgotten
    ) -> int:
        statements = []
        for row in rows:
            after = tuple(forgotten.text(row[column]) for column in columns)
            if after != tuple(row[column] for column in columns):
                setting = ", ".join(f"{column} = ?" for column in columns)
                sql = f"UPDATE {table} SET {setting} WHERE {key} = ?"
                statements.append(Statement(sql, (*after, row["at"])))
        if statements:
            await self._database.write(*statements)
        return len(statements)

    async def _redact_plugins(self, person: Person, forgotten: Forgotten) -> int:
        """What plugins keep of the person in values of others, or of all."""
        within, beginnings = _within(person.instances)
        rows = await self._database.read(
            "SELECT id, store_key, value FROM plugin_data WHERE "
            f"(chat_key = '' OR {within}) AND (value LIKE ? ESCAPE '!' "
            "OR store_key LIKE ? ESCAPE '!')",
            *beginnings,
            *[_like(person.user_id)] * 2,
        )
        statements = []
        for row in rows:
            if forgotten.text(row["store_key"]) != row["store_key"]:
                statements.append(Statement("DELETE FROM plugin_data WHERE id = ?", (row["id"],)))
            elif (after := forgotten.stored(row["value"])) != row["value"]:
                sql = "UPDATE plugin_data SET value = ? WHERE id = ?"
                statements.append(Statement(sql, (after, row["id"])))
        if statements:
            await self._database.write(*statements)
        return len(statements)


def _of_private(private: Iterable[ChatKey]) -> Iterable[Statement]:
    for chat_key in private:
        key = (str(chat_key),)
        yield Statement(
            "DELETE FROM tool_calls WHERE run_id IN (SELECT run_id FROM runs WHERE chat_key = ?)",
            key,
        )
        for table in _OF_A_CHAT:
            yield Statement(f"DELETE FROM {table} WHERE chat_key = ?", key)
        yield Statement(
            "UPDATE steps SET chat_key = '', user_id = '', reply = '', tail = '' "
            "WHERE chat_key = ?",
            key,
        )
        yield Statement(
            "UPDATE model_uses SET chat_key = '', user_id = '', run_id = '' WHERE chat_key = ?", key
        )


def _of_turns(person: Person) -> Iterable[Statement]:
    """What turns left behind that the person woke. While their runs are known, the rest first."""
    runs, values = _their_runs(person)
    for table in ("tool_calls", "deliveries", "messages", "runs"):
        yield Statement(f"DELETE FROM {table} WHERE run_id IN ({runs})", values)
    within, beginnings = _within(person.instances)
    for table, setting in (
        ("steps", "user_id = '', reply = '', tail = ''"),
        ("model_uses", "user_id = '', run_id = ''"),
        ("turns", "user_id = ''"),
    ):
        yield Statement(
            f"UPDATE {table} SET {setting} WHERE user_id = ? AND {within}",
            (person.user_id, *beginnings),
        )


def _of_person(person: Person) -> Iterable[Statement]:
    theirs, values = _in("instance", person.instances)
    yield Statement(
        f"DELETE FROM messages WHERE {theirs} AND user_id = ? AND author = 'person'",
        (*values, person.user_id),
    )
    yield Statement(f"DELETE FROM users WHERE {theirs} AND user_id = ?", (*values, person.user_id))
    within, beginnings = _within(person.instances)
    yield Statement(
        f"DELETE FROM waiting WHERE user_id = ? AND {within}", (person.user_id, *beginnings)
    )
    keys, spelt = _in("user_key", sorted(person.ids))
    yield Statement(
        f"DELETE FROM plugin_data WHERE {keys} AND (chat_key = '' OR {within})",
        (*spelt, *beginnings),
    )
    keys, spelt = _in("store_key", sorted(person.ids))
    yield Statement(
        f"DELETE FROM plugin_data WHERE {keys} AND (chat_key = '' OR {within})",
        (*spelt, *beginnings),
    )


def _their_runs(person: Person) -> tuple[str, tuple[Value, ...]]:
    within, beginnings = _within(person.instances)
    return (
        "SELECT run_id FROM runs WHERE turn_id IN "
        f"(SELECT id FROM turns WHERE user_id = ? AND {within})"
    ), (person.user_id, *beginnings)


def _in(column: str, values: Collection[str]) -> tuple[str, tuple[Value, ...]]:
    return f"{column} IN ({', '.join('?' * len(values))})", tuple(values)


def _within(instances: Collection[str]) -> tuple[str, tuple[Value, ...]]:
    """Chat keys of these accounts."""
    beginnings = tuple(f"{instance}-" for instance in instances)
    either = " OR ".join(f"substr(chat_key, 1, {len(each)}) = ?" for each in beginnings)
    return f"({either})", beginnings


def _like(text: str) -> str:
    """A pattern for texts that hold this one, as JSON writes it or not."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text}%"


def _media(rows: Rows) -> Iterable[tuple[ChatKey, Media]]:
    for row in rows:
        chat_key = ChatKey.parse(row["chat_key"])
        for medium in media_in(decode_segments(row["segments"])):
            if medium.path:
                yield chat_key, medium


def media_in(segments: Segments) -> Iterable[Media]:
    """Everything that came with a message, in forwarded ones too."""
    for segment in segments:
        match segment:
            case Image(media) | Video(media) | File(media):
                yield media
            case Voice(media=media):
                yield media
            case Forward(messages):
                for message in messages:
                    yield from media_in(message.segments)
