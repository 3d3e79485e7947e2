"""Finds a person's data in the database."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nekro_core.chat import (
    ChatKey,
    ChatKind,
    File,
    Forward,
    Image,
    Media,
    Segments,
    Video,
    Voice,
    decode_segments,
)
from nekro_core.store.database import Database, Row, Rows
from nekro_core.store.person import Person, chat_key_in, is_one_of, runs_woken_by


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonTraces:
    """A person's data in the database.

    Attributes:
        private: The private chats in which only this person wrote.
        shared: Other chats in which the person wrote or woke a turn.
        worked: The ``shared`` chats in which code ran because the person woke a turn.
        messages: How many messages the person wrote.
        turns: How many turns the person woke.
        media: The files in the messages and deliveries that will be deleted, with their chats.
        message_ids: The platform's ids of the messages that will be deleted.
        timers: The person's timers: chat and timer id.
        waiting: Ids of the ``pending`` and ``unknown`` deliveries in the person's private
            chats and in turns that the person woke.
        names: The person's latest name on each instance.
    """

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
        """The private and the shared chats."""
        return (*self.private, *self.shared)

    @property
    def with_boxes(self) -> frozenset[ChatKey]:
        """The chats whose boxes may contain data of the person."""
        return frozenset((*self.private, *self.worked, *(chat for chat, _ in self.media)))


async def traces_of(database: Database, person: Person) -> PersonTraces:
    """Find a person's data. Raises `StoreUnavailable`."""
    read, user = database.read, person.user_id
    theirs, values = is_one_of("instance", person.instances)
    wrote = await read(
        f"SELECT DISTINCT chat_key FROM messages WHERE {theirs} AND user_id = ? "
        "AND author = 'person'",
        *values,
        user,
    )
    there, beginnings = chat_key_in(person.instances)
    woke = await read(
        f"SELECT DISTINCT chat_key FROM turns WHERE user_id = ? AND {there}", user, *beginnings
    )
    known = [
        *await read(f"SELECT chat_key FROM chats WHERE {theirs}", *values),
        # Notes can be imported for a chat in which nobody has written yet.
        *await read(f"SELECT DISTINCT chat_key FROM memory_notes WHERE {there}", *beginnings),
    ]
    keys = {ChatKey.parse(row["chat_key"]) for row in (*wrote, *woke)}
    keys |= {
        key
        for key in (ChatKey.parse(row["chat_key"]) for row in known)
        # If an adapter serves several platforms, a person's id is ``platform:user``. A chat's id
        # does not contain the platform.
        if key.kind is ChatKind.PRIVATE and key.native_id in (user, user.partition(":")[2])
    }
    private = await _alone(database, person, keys)
    shared = tuple(sorted(keys.difference(private)))
    rows, (turns,) = (
        await _written_messages(database, person, private),
        await read(
            f"SELECT COUNT(*) AS number FROM turns WHERE user_id = ? AND {there}",
            user,
            *beginnings,
        ),
    )
    names = await read(f"SELECT name FROM users WHERE {theirs} AND user_id = ?", *values, user)
    return PersonTraces(
        private=private,
        shared=shared,
        worked=await _woken_turns(database, person, shared),
        messages=sum(row["author"] == "person" for row in rows),
        turns=int(turns["number"]),
        media=tuple(_media(rows)),
        message_ids=frozenset(str(row["message_id"]) for row in rows if row["message_id"]),
        timers=await _timers(database, person, private),
        waiting=await _waiting(database, person, private),
        names=tuple(row["name"] for row in names if row["name"]),
    )


async def _alone(
    database: Database, person: Person, keys: Iterable[ChatKey]
) -> tuple[ChatKey, ...]:
    """Return the private chats in which no other person wrote. A platform such as Matrix may report
    a chat of several people as private."""
    found = []
    for key in sorted(key for key in keys if key.kind is ChatKind.PRIVATE):
        others = await database.read(
            "SELECT 1 FROM messages WHERE chat_key = ? AND author = 'person' "
            "AND user_id NOT IN ('', ?) LIMIT 1",
            str(key),
            person.user_id,
        )
        if not others:
            found.append(key)
    return tuple(found)


async def _written_messages(database: Database, person: Person, private: Sequence[ChatKey]) -> Rows:
    """Read the messages and deliveries that will be deleted, for their media and message ids."""
    runs, of_runs = runs_woken_by(person)
    theirs, values = is_one_of("instance", person.instances)
    found: list[Row] = [
        *await database.read(
            "SELECT chat_key, author, message_id, segments FROM messages WHERE "
            f"({theirs} AND user_id = ? AND author = 'person') OR run_id IN ({runs})",
            *values,
            person.user_id,
            *of_runs,
        ),
        *await database.read(
            "SELECT chat_key, '' AS author, '' AS message_id, segments FROM deliveries "
            f"WHERE run_id IN ({runs})",
            *of_runs,
        ),
    ]
    for chat_key in private:
        found += await database.read(
            "SELECT chat_key, '' AS author, message_id, segments FROM messages "
            "WHERE chat_key = ? AND author <> 'person'",
            str(chat_key),
        )
    return found


async def _woken_turns(
    database: Database, person: Person, shared: Sequence[ChatKey]
) -> tuple[ChatKey, ...]:
    runs, values = runs_woken_by(person)
    rows = await database.read(
        f"SELECT DISTINCT chat_key FROM runs WHERE run_id IN ({runs}) AND code <> ''", *values
    )
    there = {row["chat_key"] for row in rows}
    return tuple(key for key in shared if str(key) in there)


async def _timers(
    database: Database, person: Person, private: Sequence[ChatKey]
) -> tuple[tuple[ChatKey, str], ...]:
    """Find the timers of private chats, and the timers that were created in a turn that the person
    woke. A chat has one turn at a time, so the time at which a timer was created shows the turn.
    Timers are compared with turns and not with runs: the ``seconds`` of a run do not include the
    time of its calls, so they do not say when the run ended."""
    there, beginnings = chat_key_in(person.instances)
    rows = await database.read(
        "SELECT chat_key, timer_id FROM timers WHERE EXISTS (SELECT 1 FROM turns "
        f"WHERE turns.chat_key = timers.chat_key AND turns.user_id = ? AND {there} "
        "AND timers.created >= turns.started "
        "AND (turns.ended = 0 OR timers.created <= turns.ended))",
        person.user_id,
        *beginnings,
    )
    keys = {str(key) for key in private}
    mine = [
        row
        for row in await database.read("SELECT chat_key, timer_id FROM timers")
        if row["chat_key"] in keys
    ]
    found = {row["timer_id"]: ChatKey.parse(row["chat_key"]) for row in (*rows, *mine)}
    return tuple((chat_key, timer_id) for timer_id, chat_key in found.items())


async def _waiting(
    database: Database, person: Person, private: Sequence[ChatKey]
) -> tuple[str, ...]:
    runs, values = runs_woken_by(person)
    rows = await database.read(
        "SELECT chat_key, delivery_id FROM deliveries WHERE state IN ('pending', 'unknown') "
        f"AND run_id IN ({runs})",
        *values,
    )
    found = [row["delivery_id"] for row in rows]
    for chat_key in private:
        rows = await database.read(
            "SELECT delivery_id FROM deliveries WHERE state IN ('pending', 'unknown') "
            "AND chat_key = ?",
            str(chat_key),
        )
        found += [row["delivery_id"] for row in rows]
    return tuple(dict.fromkeys(found))


def _media(rows: Rows) -> Iterable[tuple[ChatKey, Media]]:
    for row in rows:
        chat_key = ChatKey.parse(row["chat_key"])
        for medium in media_in(decode_segments(row["segments"])):
            if medium.path:
                yield chat_key, medium


def media_in(segments: Segments) -> Iterable[Media]:
    """Yield all media of a message, including those in forwarded messages."""
    for segment in segments:
        match segment:
            case Image(media) | Video(media) | File(media):
                yield media
            case Voice(media=media):
                yield media
            case Forward(messages):
                for message in messages:
                    yield from media_in(message.segments)
