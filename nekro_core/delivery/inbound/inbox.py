"""The way in: in order, once, and stored before anything reacts."""

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence

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
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.clean import clean_message, clean_segments, clean_text
from nekro_core.store import SqlStatement, Store
from nekro_core.store.database import Rows
from nekro_core.store.messages import unique_id_in, unique_id_of

_LATEST = 1e11
"""Seconds since 1970, in the year 5138. What a platform, or a stranger's server behind it, calls a
time may be none that a calendar has, or JSON's NaN: kept, nobody could show its chat any more."""
_TRIES = 3
"""Times that a message is looked at anew because somebody else changed it meanwhile."""

Listener = Callable[[Record, float], None]
"""Takes a new record, and how many seconds ago it reached us."""
RecallListener = Callable[[Record], None]
"""Is told of a record that was taken back."""


def _everything(_: Record) -> bool:
    return True


async def _without_more(_: Record) -> None:
    return None


def _nothing(_: int) -> tuple[SqlStatement, ...]:
    return ()


class Inbox:
    """Where every adapter hands its messages."""

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
        self._listeners: list[Listener] = []
        self._recall_listeners: list[RecallListener] = []
        self._keeps: Callable[[Record], bool] = _everything
        self._let_go: Callable[[Record], Awaitable[None]] = _without_more

    def set_filter(
        self, keeps: Callable[[Record], bool], let_go: Callable[[Record], Awaitable[None]]
    ) -> None:
        """Ask this of every message that arrives from now on: what it says no to is neither stored
        nor told to anybody, and ``let_go`` forgets the files that came with it."""
        self._keeps, self._let_go = keeps, let_go

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Be told of each new record, in the order in which they were stored; the agent's sessions
        live on this. ``listener`` must only take note: it is called inside the store's own loop.
        Returns what ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def listen_recalls(self, listener: RecallListener) -> Callable[[], None]:
        """Be told of each record that was taken back on its platform, as it is now. ``listener``
        must only take note. Returns what ends it."""
        self._recall_listeners.append(listener)
        return lambda: self._recall_listeners.remove(listener)

    async def accept(self, message: ChatMessage) -> Record | None:
        """Take a message or a notice; nothing comes back for one that was known already.

        Known means: the same message id in the same chat, or for a notice, which has none, the
        same chat, time, kind and people. The order of calls is the order kept, since the place is
        taken before the first await. A message of one of our own accounts is recorded as
        `Author.BOT`, which never triggers. One with an impossible time was said now.

        Once this was called the message will be stored and told of, also where the caller is
        cancelled. Raises `StoreUnavailable`: nothing was kept.
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
        )
        if not self._keeps(record):
            await self._let_go(record)
            return None
        unique = unique_id_of(message.message_id) or _notice_digest(message)
        before = (*store.chats.seen(key), *store.users.seen(key.instance, sender))

        def failed() -> None:
            store.chats.forget(key)
            store.users.forget(key.instance, sender)

        results = await store.messages.add(
            record,
            unique_id=unique,
            before=before,
            stored=lambda record: self._tell(record, arrived),
            failed=failed,
        )
        if not results[-1] and message.message_id:
            results = await self._add_in_chat(record, arrived)
        return record if results[-1] else None

    async def _add_in_chat(self, record: Record, arrived: float) -> list[Rows]:
        """Store a message whose id is known: it is a duplicate where its own chat has the id, and
        another message where another one has."""
        messages, key = self._store.messages, record.chat_key
        if await messages.by_message_id(key, record.message_id) is not None:
            return [[]]
        return await messages.add(
            record,
            unique_id=unique_id_in(key, record.message_id),
            stored=lambda record: self._tell(record, arrived),
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
        beside: Callable[[int], Sequence[SqlStatement]] = _nothing,
    ) -> Record:
        """Add a system line to a chat's history: for the model and the pages, not sent.

        One ``to_bot`` is for the agent to answer, after a restart as well. One whose ``unique_id``
        the instance has is neither stored nor told again. One that ``begins_anew`` is where the
        agent's memory of the chat begins. ``beside`` makes of its number what is
        written in the same transaction. Once the first await is reached it will be stored, also
        where the caller is cancelled. Raises `StoreUnavailable`.
        """
        store, begun = self._store, self._clock()
        marks = (Notice(CONVERSATION_RESET),) if begins_anew else ()
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
            stored=lambda record: self._tell(record, begun),
            failed=lambda: store.chats.forget(chat_key),
        )
        return record

    async def recall(self, chat_key: ChatKey, message_id: str) -> Record | None:
        """A message was taken back on the platform: it leaves the prompt and the pages."""
        record = await self._store.messages.recall(chat_key, clean_text(message_id))
        if record is not None:
            for listener in [*self._recall_listeners]:
                try:
                    listener(record)
                except Exception:  # noqa: BLE001 (it is taken back, whoever cannot hear of it)
                    logger.exception(
                        "a listener failed on the recall of {} of {}", record.seq, chat_key
                    )
            self._activity.publish(Recorded(record))
        return record

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> Record | None:
        """Somebody changed on the platform what they had said. The record as it is now; nothing
        where it is not theirs, not known or was taken back. See `Host.revise`."""
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

    def _tell(self, record: Record, arrived: float) -> None:
        for listener in [*self._listeners]:
            try:
                listener(record, self._clock() - arrived)
            except Exception:  # noqa: BLE001 (one listener's fault must not stop the others or the store)
                logger.exception(
                    "a listener failed on record {} of {}", record.seq, record.chat_key
                )
        self._activity.publish(Recorded(record))


def _notice_digest(message: ChatMessage) -> str | None:
    notice = message.notice
    if notice is None:
        return None
    parts = (str(message.chat_key), message.time, *msgspec.structs.astuple(notice))
    return f"notice:{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()}"
