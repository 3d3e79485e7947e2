"""Stores each incoming message once and in order, before anything reacts to it."""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import (
    CONVERSATION_RESET,
    Author,
    ChatKey,
    ChatMessage,
    Mention,
    Notice,
    Record,
    Reply,
    Segments,
    Text,
)
from nekro_core.chat.record import CONVERSATION_COMPACTED
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.clean import clean_message, clean_segments, clean_text
from nekro_core.store import SqlStatement, Store
from nekro_core.store.database import Rows, WriteGuard
from nekro_core.store.messages import unique_id_in, unique_id_of, with_final_seq

_LATEST = 1e11
"""Latest accepted time of a message: seconds since 1970, in the year 5138. A platform or another
server may send an impossible time or NaN in its JSON, and a history with such a time could not be
shown. So the current time is stored instead."""
_TRIES = 3
"""Maximum number of attempts to store an edit. An attempt fails if another change of the record was
stored between the attempt's read and its write."""


@dataclass(frozen=True, slots=True)
class StampedMessage:
    """A message that has a sequence number but is not stored yet.

    Attributes:
        record: The record that will be stored.
        unique_id: A text that is the same for a message and its duplicate; None if duplicates
            cannot be recognized.
        arrived: When the message arrived, on the inbox's clock.
        chat_name: The name of its chat; empty if the platform did not say it.
    """

    record: Record
    unique_id: str | None
    arrived: float
    chat_name: str = ""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A new record was committed.

    Attributes:
        record: The record.
        arrived: When the message of the record arrived, on the inbox's clock.
    """

    record: Record
    arrived: float


@dataclass(frozen=True, slots=True)
class RecalledRecord:
    """A message was recalled on its platform.

    Attributes:
        record: The record after the change: it is marked as recalled.
    """

    record: Record


InboxEvent = StoredRecord | RecalledRecord


@dataclass(frozen=True, slots=True)
class LeftOutRecords:
    """The queue was full, so the events of some records were left out; see `Inbox.bound`. The
    records are in the database.

    Attributes:
        groups: The numbers of the sets of chats to which the chats of these records belong, as
            ``group_of`` of `Inbox.bound` returned them.
    """

    groups: AbstractSet[int]


def _nothing(_: int) -> tuple[SqlStatement, ...]:
    return ()


def _no_guards(_: int) -> tuple[WriteGuard, ...]:
    return ()


class Inbox:
    """Stores incoming messages, and queues them for the sessions.

    The queue holds one event for each committed or recalled record, until the only consumer takes
    the event. A commit cannot wait for the consumer, so the queue is unbounded unless `bound` was
    called. The consumer of a process that has the bot for itself does little work for each event,
    so it empties the queue in the event loop's next iteration. Until the consumer starts, the queue
    collects the events of all records that are stored.
    """

    def __init__(
        self,
        store: Store,
        activity: Broadcast,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._activity = activity
        self._clock = clock
        self._wall = wall
        self._events: deque[InboxEvent] = deque()
        self._event_came = anyio.Event()
        self._most: int | None = None
        self._group_of: Callable[[ChatKey], int] = lambda _: 0
        self._left_out: set[int] = set()

    @property
    def queued(self) -> tuple[InboxEvent, ...]:
        """The events that the consumer has not taken, oldest first."""
        return tuple(self._events)

    @property
    def empty(self) -> bool:
        """Whether the consumer has taken all events, and has got the `LeftOutRecords` about those
        that were left out."""
        return not self._events and not self._left_out

    def bound(self, most: int, group_of: Callable[[ChatKey], int]) -> None:
        """Bound the queue, for a consumer that may have to wait for long. Once ``most`` events are
        queued, further events are left out until the consumer has taken all that are queued. Then
        it gets a `LeftOutRecords`, and must look into the database for the records. ``group_of``
        returns the number of the set of chats to which a chat belongs, for example of its
        partition. There should be few sets, because only their numbers are remembered."""
        self._most, self._group_of = most, group_of

    async def next_event(self) -> InboxEvent:
        """Wait for an event, and take the oldest from the queue. Call this if `bound` was not
        called. Only one consumer may call it."""
        event = await self.next_of_bounded()
        assert not isinstance(event, LeftOutRecords), "only a bounded queue leaves events out"
        return event

    async def next_of_bounded(self) -> InboxEvent | LeftOutRecords:
        """Do the same if `bound` was called. When all events are taken and later ones were left
        out, return a `LeftOutRecords`."""
        while self.empty:
            self._event_came = anyio.Event()
            await self._event_came.wait()
        if self._events:
            return self._events.popleft()
        groups, self._left_out = frozenset(self._left_out), set()
        return LeftOutRecords(groups)

    def forget_person(self, chat_key: ChatKey, user_id: str) -> None:
        """Remove the events of a person's messages in a chat from the queue. Stored rows stay."""
        self._events = deque(
            event
            for event in self._events
            if (event.record.chat_key, event.record.sender.user_id) != (chat_key, user_id)
        )

    def stamp(self, message: ChatMessage) -> StampedMessage:
        """Give a message the next sequence number. The history has the order of these calls. If
        other processes share the database, the message gets its number when it is stored.

        A message of one of our own accounts becomes a record of `Author.BOT`, which never triggers
        an answer. An impossible time is replaced by the current time.
        """
        arrived = self._clock()
        message = clean_message(message)
        store, key, sender = self._store, message.chat_key, message.sender
        own = sender.user_id == message.account or sender.user_id in store.accounts.own(
            key.instance
        )
        record = Record(
            seq=store.messages.reserve(),
            chat_key=key,
            author=Author.BOT if own else Author.PERSON,
            segments=message.segments,
            time=message.time if 0 <= message.time <= _LATEST else self._wall(),
            message_id=message.message_id,
            sender=sender,
            to_bot=message.to_bot and not own,
            from_history=message.from_history,
            answered_elsewhere=message.answered_elsewhere,
        )
        unique_id = unique_id_of(message.message_id) or _notice_digest(message)
        return StampedMessage(record, unique_id, arrived, message.chat_name)

    async def accept(self, stamped: StampedMessage) -> Record | None:
        """Store a stamped message or notice. Returns the stored record; None for a duplicate.

        A message with the same id in the same chat is a duplicate. A notice has no id; a notice
        with the same chat, time, kind and people is a duplicate. Messages are stored in the order
        of these calls if there is no await between `stamp` and `accept`.

        Once this call has begun, the message is stored and queued even if the caller is cancelled.
        Raises `StoreUnavailable`: nothing was stored.
        """
        store, record = self._store, stamped.record
        key, sender = record.chat_key, record.sender
        before = (
            *store.chats.seen(key, stamped.chat_name),
            *store.users.seen(key.instance, sender),
        )

        def failed() -> None:
            store.chats.forget(key)
            store.users.forget(key.instance, sender)

        results = await store.messages.add(
            record,
            unique_id=stamped.unique_id,
            before=before,
            stored=lambda record: self._on_stored(record, stamped.arrived),
            failed=failed,
        )
        if not results[-1] and record.message_id:
            results = await self._add_in_chat(record, stamped.arrived)
        return with_final_seq(record) if results[-1] else None

    async def _add_in_chat(self, record: Record, arrived: float) -> list[Rows]:
        """Store a message whose id is already known in the instance. If the same chat has the id,
        the message is a duplicate. If only another chat has the id, it is a different message."""
        messages, key = self._store.messages, record.chat_key
        if await messages.by_message_id(key, record.message_id) is not None:
            return [[]]
        return await messages.add(
            record,
            unique_id=unique_id_in(key, record.message_id),
            stored=lambda record: self._on_stored(record, arrived),
        )

    async def note(
        self,
        chat_key: ChatKey,
        text: str,
        *,
        run_id: str = "",
        to_bot: bool = False,
        unique_id: str | None = None,
        begins_anew: bool = False,
        compacts: bool = False,
        beside: Callable[[int], Sequence[SqlStatement]] = _nothing,
        guards: Callable[[int], Sequence[WriteGuard]] = _no_guards,
    ) -> Record:
        """Add a system line to a chat's history. The model and the web pages see the line; it is
        not sent to the chat.

        The agent answers a line with ``to_bot``, even after a restart. A line is not stored again
        if a record with its ``unique_id`` exists. With ``begins_anew`` the agent forgets everything
        in the chat before this line; with ``compacts`` the agent sees a summary of the earlier
        records instead. ``beside`` gets the line's ``seq`` and returns SQL statements that run in
        the same transaction. ``guards`` also gets this ``seq``, and returns conditions under which
        the line is stored; see `Database.write`. If the caller is cancelled while this method
        waits, the line is stored nevertheless. Raises `StoreUnavailable`, and `GuardFailed` if a
        condition is not fulfilled.
        """
        store, begun = self._store, self._clock()
        detail = CONVERSATION_COMPACTED if compacts else ""
        anew = begins_anew or compacts
        marks = (Notice(CONVERSATION_RESET, detail=detail),) if anew else ()
        record = Record(
            seq=store.messages.reserve(),
            chat_key=chat_key,
            author=Author.SYSTEM,
            segments=(*marks, Text(clean_text(text))),
            time=self._wall(),
            to_bot=to_bot,
            run_id=run_id,
        )
        await store.messages.add(
            record,
            unique_id=unique_id,
            before=(*store.chats.seen(chat_key), *beside(record.seq)),
            guards=guards(record.seq),
            stored=lambda record: self._on_stored(record, begun),
            failed=lambda: store.chats.forget(chat_key),
        )
        return with_final_seq(record)

    async def recall(self, chat_key: ChatKey, message_id: str) -> Record | None:
        """Mark a message as recalled on the platform, so that the prompt and the pages omit it.
        Returns the changed record; None if the message is not known."""
        record = await self._store.messages.recall(chat_key, clean_text(message_id))
        if record is not None:
            self._enqueue(RecalledRecord(record))
            self._activity.publish(Recorded(record))
        return record

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> Record | None:
        """Store the new text of a message that its author edited; see `Host.revise`. Returns the
        changed record; None if the message has another author, is not known or was recalled, or if
        all `_TRIES` attempts failed."""
        store = self._store.messages
        for _ in range(_TRIES):
            record = await store.by_message_id(chat_key, clean_text(message_id))
            if record is None or record.author is Author.BOT or record.sender.user_id != user_id:
                return None
            kept = [part for part in record.segments if not isinstance(part, Text | Mention)]
            replies = [part for part in kept if isinstance(part, Reply)]
            media = [part for part in kept if not isinstance(part, Reply)]
            changed = await store.reword(record, (*replies, *clean_segments(said), *media))
            if changed is not None:
                self._activity.publish(Recorded(changed))
                return changed
        return None

    def _on_stored(self, record: Record, arrived: float) -> None:
        self._enqueue(StoredRecord(record, arrived))
        self._activity.publish(Recorded(record))

    def _enqueue(self, event: InboxEvent) -> None:
        # Once an event was left out, later ones are left out too, even if there is room again. So
        # no event overtakes the look into the database that finds the earlier ones.
        if self._left_out or (self._most is not None and len(self._events) >= self._most):
            if not self._left_out:
                logger.warning("{} events wait in the inbox; later ones are not kept", self._most)
            self._left_out.add(self._group_of(event.record.chat_key))
        else:
            self._events.append(event)
        self._event_came.set()


class ChatJournal:
    """The access that plugins have to a chat's history: they read it and add system lines."""

    def __init__(self, store: Store, inbox: Inbox) -> None:
        self._store = store
        self._inbox = inbox

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        """Add a system line; with ``trigger`` the agent of the chat answers it."""
        await self._inbox.note(chat_key, text, run_id=run_id, to_bot=trigger)

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        """Return the newest records that were not recalled, oldest first. Records from before the
        last reset of the conversation are left out."""
        records = await self._store.messages.newest(chat_key, limit)
        begun = max((place for place, each in enumerate(records) if each.begins_anew), default=-1)
        records = records[begun + 1 :]
        return [record for record in records if not record.recalled]


def _notice_digest(message: ChatMessage) -> str | None:
    notice = message.notice
    if notice is None:
        return None
    parts = (str(message.chat_key), message.time, *msgspec.structs.astuple(notice))
    return f"notice:{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()}"
