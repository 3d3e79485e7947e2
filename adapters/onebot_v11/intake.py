"""Hands the events of each chat to the host, in the order of arrival.

NoneBot starts a task for each event, and makes network calls before a handler gets the event. So
two messages can change places (measured: the 12th message was handled before the 11th). Here an
event joins the queue of its chat in the order in which it was read from the socket. The calls that
a message needs are made inside the queue.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream
from loguru import logger

from nekro_core.api.adapter import Host, KeyedQueue, MatcherDecision, Prefetch, accept_patiently
from nekro_core.api.chat import (
    ChatKey,
    ChatKeyError,
    ChatKind,
    ChatMessage,
    File,
    Mention,
    Reply,
    Segments,
    Sender,
)

from .connection import OneBotConnection
from .group_names import GroupNames
from .history import ChatTarget, Gap, find_gaps, missed_messages
from .incoming import (
    Json,
    chat_of,
    needs_lookups,
    person_of,
    read_notice,
    read_request,
    read_segments,
    sender_of,
    time_of,
    words,
)
from .lookups import HISTORY_S, MessageLookups

FILLING = 8
"""Maximum number of chats whose history is fetched at once. An account may be in hundreds of
chats."""
UNHEARD_S = 3600.0
"""If an account is known, but no message of it is stored, the histories of its chats are read back
for at most this many seconds."""
FILES_REMEMBERED = 64
"""Maximum number of files of recent messages that are remembered, each with its chat, person and
name. A OneBot implementation may report a file a second time, as a notice. If the file is
remembered, the notice is dropped."""
TOGETHER = 8
"""Maximum number of messages of a history whose media are fetched concurrently."""
RECALLS = ("group_recall", "friend_recall")


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """An event. ``prefetch`` gives the segments of a message. It is None for other events, and for
    messages that the bot's account itself sent."""

    event: Json
    prefetch: Prefetch[Segments] | None
    decision: MatcherDecision | None = None

    async def answered_elsewhere(self) -> bool:
        """Return True if a blocking matcher of NoneBot took the event."""
        return self.decision is not None and await self.decision.blocked()


ArrivedEvent = tuple[Json, MatcherDecision | None]
"""An event of a connection, and the decision of NoneBot's matchers if there are any."""


class OneBotIntake:
    """Processes the events of all connections. ``name`` is the adapter's name, with which the host
    looks up instances."""

    def __init__(
        self, host: Host, tasks: TaskGroup, *, name: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._host = host
        self._name = name
        self._clock = clock
        self._queue = KeyedQueue(tasks)
        self._names = GroupNames(tasks, host.name_chat)
        self._files: dict[tuple[ChatKey, str, str], None] = {}
        self._filling = anyio.CapacityLimiter(FILLING)
        self._cut: dict[ChatKey, OneBotConnection] = {}
        """The chats whose history could not be fetched to its end, because the connection was lost.
        Each chat has the lost connection."""
        self._behind: dict[ChatKey, list[IncomingEvent]] = {}
        """The events that arrived in a chat of ``_cut``, or on a connection that was lost before
        its `find_gaps` had ended. They wait until the next connection has fetched the rest of the
        chat's history. If the events were stored before that, the next fetch would begin after
        them, and the rest of the history would stay missing."""

    async def take(
        self, connection: OneBotConnection, events: MemoryObjectReceiveStream[ArrivedEvent]
    ) -> None:
        """Fetch missed messages, then process all events of a connection until its stream ends.

        If processing fails, for example because the database is down, the connection is closed. The
        peer connects again, and then the missed messages are fetched from the history.
        """
        with events:
            try:
                await self._take(connection, events)
            except Exception as error:  # noqa: BLE001 - the host may raise anything
                logger.exception("OneBot v11: account {} cannot be served", connection.account)
                await connection.close(1011, f"cannot be served: {error!r}"[:100])

    async def _take(
        self, connection: OneBotConnection, events: MemoryObjectReceiveStream[ArrivedEvent]
    ) -> None:
        since = await self._host.known_since(self._name, connection.account)
        instance = await self._host.instance_of(self._name, connection.account)
        self._host.online()
        gaps = {
            ChatKey(instance, *gap.place): gap
            for gap in await self._gaps(connection, instance, since)
        }
        unsure = bool(connection.lost)
        for key, gap in gaps.items():
            await self._queue.submit(key, partial(self._fill, connection, key, gap))
        for key in [*self._behind]:
            if key.instance == instance and key not in gaps and not unsure:
                await self._queue.submit(key, partial(self._catch_up, connection, key))
        async for event, decision in events:
            # The instance is read again for each event, because the operator may have changed it.
            instance = await self._host.instance_of(self._name, connection.account)
            await self._sort(connection, instance, event, decision, unsure=unsure)

    async def drain(self) -> None:
        """Wait until every event that was read has been processed."""
        await self._queue.idle()

    async def _gaps(
        self, connection: OneBotConnection, instance: str, since: float | None
    ) -> list[Gap]:
        newest_times = await self._host.newest_times(instance)
        by_chat: dict[ChatTarget, float] = {
            (key.kind, key.native_id): at for key, at in newest_times.items()
        }
        now = self._clock()
        begun = now if since is None else max(since, now - UNHEARD_S)
        return await find_gaps(connection, by_chat, begun)

    async def _fill(self, connection: OneBotConnection, key: ChatKey, gap: Gap) -> None:
        async with self._filling:
            events = await missed_messages(connection, gap)
        deadline = anyio.current_time() + HISTORY_S
        for start in range(0, len(events), TOGETHER):
            part = events[start : start + TOGETHER]
            # This job is the first in the chat's queue, so all these reads begin at once.
            read = [self._reading(connection, key, event, deadline) for event in part]
            for event, prefetch in zip(part, read, strict=True):
                # A message that was also received live is not history: a command in it is run.
                duplicate = words(event.get("message_id")) in connection.received_ids
                come = IncomingEvent(event, prefetch)
                await self._accept_message(connection, key, come, from_history=not duplicate)
        if connection.lost:
            self._cut[key] = connection
        else:
            await self._catch_up(connection, key)

    async def _catch_up(self, connection: OneBotConnection, key: ChatKey) -> None:
        self._cut.pop(key, None)
        for come in self._behind.pop(key, ()):
            await self._handle(connection, key, come)

    async def _sort(
        self,
        connection: OneBotConnection,
        instance: str,
        event: Json,
        decision: MatcherDecision | None,
        *,
        unsure: bool,
    ) -> None:
        """Put an event into the queue of its chat. ``unsure`` is True if the connection was lost
        during `find_gaps`. Then messages from before the event may be missing."""
        kind = event.get("post_type")
        if kind not in ("message", "notice"):
            if kind == "request":
                await self._take_request(connection, event)
            return
        chat = chat_of(event)
        try:
            key = ChatKey(instance, *chat) if chat else None
        except ChatKeyError as error:
            logger.warning("{}: an event belongs to no chat: {}", connection.source, error)
            return
        if key is None:
            logger.debug("{}: an event belongs to no chat: {}", connection.source, str(event)[:300])
            return
        prefetch = self._reading(connection, key, event) if kind == "message" else None
        come = IncomingEvent(event, prefetch, decision)
        await self._queue.submit(
            key, partial(self._take_message, connection, key, come, unsure=unsure)
        )

    async def _take_request(self, connection: OneBotConnection, event: Json) -> None:
        request = read_request(event, self._name, connection.account, self._clock())
        if request is None:
            logger.info("{}: an unknown request is ignored: {}", connection.source, event)
            return
        try:
            await self._host.receive_request(request)
        except OSError as error:
            logger.error("{}: a request cannot be stored: {}", connection.source, error)

    def _reading(
        self, connection: OneBotConnection, key: ChatKey, event: Json, deadline: float | None = None
    ) -> Prefetch[Segments] | None:
        """Begin to read a message with its media. Return None for the account's own message, which
        the outbox has recorded."""
        if _is_echo(connection, event):
            return None
        fetch_slot = partial(self._queue.fetch_slot, key)
        enquiry = MessageLookups(
            connection, self._host.media, key, fetch_slot=fetch_slot, deadline=deadline
        )
        message = event.get("message")
        read = partial(read_segments, message, enquiry)
        return self._queue.prefetch(key, read, ahead=needs_lookups(message))

    async def _take_message(
        self, connection: OneBotConnection, key: ChatKey, come: IncomingEvent, *, unsure: bool
    ) -> None:
        if unsure or self._cut.get(key) is connection:
            self._behind.setdefault(key, []).append(come)
            return
        await self._catch_up(connection, key)
        await self._handle(connection, key, come)

    async def _handle(
        self, connection: OneBotConnection, key: ChatKey, come: IncomingEvent
    ) -> None:
        event = come.event
        if event.get("post_type") == "message":
            await self._accept_message(connection, key, come)
        elif event.get("notice_type") in RECALLS:
            await self._host.recall(key, words(event.get("message_id")))
        else:
            await self._accept_notice(connection, key, come)

    async def _accept_message(
        self,
        connection: OneBotConnection,
        key: ChatKey,
        come: IncomingEvent,
        *,
        from_history: bool = False,
    ) -> None:
        if come.prefetch is None:
            return
        event, sender = come.event, sender_of(come.event)
        segments = await come.prefetch.get()
        for segment in segments:
            if isinstance(segment, File):
                self._remember_file((key, sender.user_id, segment.media.name))
        await self._accept(
            connection,
            key,
            event,
            sender,
            segments,
            message_id=words(event.get("message_id")),
            to_bot=key.kind is ChatKind.PRIVATE or _addressed(segments, connection.account),
            from_history=from_history,
            answered_elsewhere=await come.answered_elsewhere(),
        )

    async def _accept_notice(
        self, connection: OneBotConnection, key: ChatKey, come: IncomingEvent
    ) -> None:
        event = come.event
        by_us = person_of(event) == connection.account
        if event.get("notice_type") == "group_upload":
            if by_us:
                return  # the outbox has recorded the account's own uploads
            upload = event.get("file")
            file: Json = upload if isinstance(upload, dict) else {}
            if (key, person_of(event), words(file.get("name"))) in self._files:
                return  # NapCat and LLBot report a file twice: as a message and as this notice
            fetch_slot = partial(self._queue.fetch_slot, key)
            media = await MessageLookups(
                connection, self._host.media, key, fetch_slot=fetch_slot
            ).media("file", file)
            segments: Segments = (File(media),)
            to_bot = False
        else:
            notice = read_notice(event)
            if notice is None or (by_us and notice.kind == "poke"):
                return
            segments = (notice,)
            to_bot = notice.kind == "poke" and notice.target_id == connection.account
        await self._accept(
            connection,
            key,
            event,
            Sender(person_of(event)),
            segments,
            to_bot=to_bot,
            answered_elsewhere=await come.answered_elsewhere(),
        )

    def _remember_file(self, file: tuple[ChatKey, str, str]) -> None:
        self._files[file] = None
        if len(self._files) > FILES_REMEMBERED:
            del self._files[next(iter(self._files))]

    async def _accept(
        self,
        connection: OneBotConnection,
        key: ChatKey,
        event: Json,
        sender: Sender,
        segments: Segments,
        *,
        message_id: str = "",
        to_bot: bool = False,
        from_history: bool = False,
        answered_elsewhere: bool = False,
    ) -> None:
        message = ChatMessage(
            chat_key=key,
            message_id=message_id,
            sender=sender,
            segments=segments,
            time=time_of(event, self._clock()),
            account=connection.account,
            to_bot=to_bot,
            from_history=from_history,
            answered_elsewhere=answered_elsewhere,
            chat_name=self._names.of(connection, key, event),
        )
        await accept_patiently(self._host.accept, message)


def _is_echo(connection: OneBotConnection, event: Json) -> bool:
    own = event.get("post_type") == "message_sent"
    return own or sender_of(event).user_id == connection.account


def _addressed(segments: Segments, account: str) -> bool:
    """Return True if the message mentions the account or replies to it."""
    return any(
        (isinstance(segment, Mention) and segment.user_id == account)
        or (isinstance(segment, Reply) and segment.sender_id == account)
        for segment in segments
    )
