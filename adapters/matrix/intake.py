"""Converts the events of each room, in the server's order, and hands them to the host."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from loguru import logger

from nekro_core.api.adapter import (
    Expected,
    Host,
    KeyedQueue,
    MatcherDecision,
    Prefetch,
    accept_patiently,
)
from nekro_core.api.chat import (
    ChatKey,
    ChatKeyError,
    ChatKind,
    ChatMessage,
    Media,
    Reply,
    Segments,
    Sender,
    Unknown,
)

from .homeserver import Homeserver, HomeserverError, Json
from .incoming import (
    QUOTED_LENGTH,
    body_of,
    is_for,
    medium_of,
    read_message,
    read_notice,
    replaced_id,
    said_at,
    summary_of,
    table,
    thread_of,
    with_mentions,
    words,
)
from .rooms import QuotableEvent, Room, Rooms

HISTORY_S = 30.0
"""After a reconnect, a message whose age is over this many seconds counts as history. A younger
message is answered as if the bot had been connected. The server states the age."""
MEDIUM_S = 15.0
"""Time limit for downloading a medium, in seconds from the arrival of its message. The room's next
messages wait for this medium; meanwhile the download of their own media begins."""
MESSAGES = frozenset({"m.room.message", "m.sticker"})

Accept = Callable[[ChatMessage], Awaitable[None]]
HandOver = Callable[[Accept, ChatMessage], Awaitable[None]]
"""Hands a message to the host. The default, `accept_patiently`, tries again if the store fails."""
Action = Callable[[], Awaitable[None]]


class MatrixIntake:
    """Processes the events of one account."""

    def __init__(
        self,
        host: Host,
        server: Homeserver,
        rooms: Rooms,
        *,
        instance: str,
        account: str,
        clock: Callable[[], float] = time.time,
        hand_over: HandOver = accept_patiently,
    ) -> None:
        self._host = host
        self._server = server
        self._rooms = rooms
        self._instance = instance
        self._account = account
        self._clock = clock
        self._hand_over = hand_over

    def medium(self, room_id: str, event: Json, queue: KeyedQueue) -> Prefetch[bytes] | None:
        """Return the download of an event's medium, which `take` needs. None if the event has no
        medium, or is the account's own. If earlier events wait in the room's queue, the download
        begins at once; else it begins when `take` asks for the medium."""
        reference = medium_of(event)
        if reference is None or words(event.get("sender")) == self._account:
            return None
        deadline = anyio.current_time() + MEDIUM_S

        async def download() -> bytes:
            async with queue.fetch_slot(room_id):
                seconds = max(deadline - anyio.current_time(), 0.0)
                return await self._server.download(*reference, seconds=seconds)

        return queue.prefetch(room_id, download)

    async def take(
        self,
        room_id: str,
        event: Json,
        *,
        away: bool = False,
        medium: Prefetch[bytes] | None = None,
        decision: MatcherDecision | None = None,
    ) -> None:
        """Process one event of a room's timeline. ``decision`` is made by NoneBot's matchers, if
        there are any.

        ``away`` is True for the first answer of a connection and for messages from before the
        account joined. Only these messages can be history: in later answers, a message looks old
        only if another server's clock is wrong.

        An event that cannot be read is logged and skipped: it must not block its room, and must not
        be read again and again. Errors of the host are raised.
        """
        try:
            deed = await self._read(room_id, event, away=away, medium=medium, decision=decision)
        except Exception:  # noqa: BLE001 - strangers write events; logged with its traceback
            logger.exception("{}: an event cannot be read: {}", room_id, str(event)[:500])
            return
        if deed is not None:
            await deed()

    async def _read(
        self,
        room_id: str,
        event: Json,
        *,
        away: bool,
        medium: Prefetch[bytes] | None,
        decision: MatcherDecision | None,
    ) -> Action | None:
        """Return the action for an event; None if there is nothing to do."""
        kind, content = event.get("type"), table(event.get("content"))
        sender, event_id = words(event.get("sender")), words(event.get("event_id"))
        if not sender or not event_id:
            return None
        if kind == "m.room.redaction":
            recalled = words(event.get("redacts") or content.get("redacts"))
            key = self._key_of(room_id, recalled)
            return partial(self._host.recall, key, recalled) if recalled else None
        replaced, thread = replaced_id(content), thread_of(content)
        if kind in MESSAGES and content and not replaced:
            self._rooms.remember(
                event_id, QuotableEvent(sender, body_of(content)[:QUOTED_LENGTH], thread)
            )
        if sender == self._account:
            return None  # the bot sent this message, and the outbox has recorded it
        if replaced:
            # A server lets any person edit any message, so the host checks who the author is.
            new = table(content.get("m.new_content"))
            edited = with_mentions(body_of(new), new, self._account)
            key = self._key_of(room_id, replaced)
            return partial(self._host.revise, key, replaced, sender, edited) if edited else None
        try:
            key = self._rooms.key(self._instance, room_id, thread)
        except ChatKeyError as error:
            logger.warning("Matrix: an event belongs to no chat: {}", error)
            return None
        segments = await self._segments(key, event, medium)
        if not segments:
            return None
        room = await self._rooms.known(room_id)
        message = ChatMessage(
            chat_key=key,
            message_id=event_id,
            sender=await self._sender(room_id, room, sender),
            segments=segments,
            time=said_at(event, self._clock()),
            account=self._account,
            to_bot=kind in MESSAGES and self._to_bot(key, content, segments),
            from_history=away and _age_s(event) > HISTORY_S,
            answered_elsewhere=decision is not None and await decision.blocked(),
        )
        return partial(self._hand_over, self._host.accept, message)

    def _key_of(self, room_id: str, event_id: str) -> ChatKey:
        """Return the chat key of an event. It has the event's thread if the event is cached."""
        quoted = self._rooms.cached_event(event_id)
        return self._rooms.key(self._instance, room_id, quoted.thread if quoted else None)

    async def _segments(
        self, key: ChatKey, event: Json, medium: Prefetch[bytes] | None
    ) -> Segments:
        kind, content = event.get("type"), table(event.get("content"))
        if kind in MESSAGES:
            # A message without content was deleted before the bot read it.
            lookups = _Enquiry(self._host, self._server, self._rooms, key, medium)
            return await read_message(event, lookups, self._account) if content else ()
        if kind == "m.room.encrypted":
            return (Unknown("encrypted", "a message that this bot cannot read: it is encrypted"),)
        if kind in {"m.poll.start", "org.matrix.msc3381.poll.start"}:
            return (Unknown("poll", summary_of(content)),)
        notice = read_notice(event, self._account)
        return (notice,) if notice is not None else ()

    def _to_bot(self, key: ChatKey, content: Json, segments: Segments) -> bool:
        if content.get("msgtype") == "m.notice":
            return False
        private = key.kind is ChatKind.PRIVATE
        return private or is_for(content, segments, self._account)

    async def _sender(self, room_id: str, room: Room, user: str) -> Sender:
        return Sender(user, words(await self._rooms.name_of(room_id, user)), room.role_of(user))


class _Enquiry:
    """The `MatrixLookups` of one message. Each lookup has a time limit. If a lookup fails, its
    return value says so, and no error is raised."""

    def __init__(
        self,
        host: Host,
        server: Homeserver,
        rooms: Rooms,
        key: ChatKey,
        medium: Prefetch[bytes] | None,
    ) -> None:
        self._medium = medium
        self._host = host
        self._server = server
        self._rooms = rooms
        self._key = key

    async def media(self, server: str, media_id: str, name: str, expect: Expected) -> Media:
        """Download a medium through the account's own homeserver. So the bot never connects to a
        server that a stranger names."""
        try:
            if self._medium is not None:
                data = await self._medium.get()
            else:
                data = await self._server.download(server, media_id, seconds=MEDIUM_S)
        except HomeserverError as error:
            return Media(name=name[:255], problem=f"cannot be fetched: {error}")
        return await self._host.media.keep_bytes(self._key, data, name=name, expect=expect)

    async def quoted(self, event_id: str) -> Reply:
        """Return an event from the cache of recent events, or request it from the server."""
        said = self._rooms.cached_event(event_id)
        if said is None:
            event = await self._rooms.event(self._key.native_id, event_id)
            content = table(event.get("content"))
            said = QuotableEvent(words(event.get("sender")), body_of(content)[:QUOTED_LENGTH])
        return Reply(event_id, said.sender, said.text)


def _age_s(event: Json) -> float:
    age: Any = table(event.get("unsigned")).get("age")
    return float(age) / 1000 if isinstance(age, int | float) else 0.0
