"""Converts received messages into segments. The library uniseg has cut them into its own pieces."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from io import BytesIO
from typing import Any

import anyio
from loguru import logger
from nonebot.adapters import Bot, Event
from nonebot_plugin_alconna import uniseg

from nekro_core.api.adapter import Expected, Host
from nekro_core.api.chat import (
    EVERYONE,
    Author,
    ChatKey,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Segments,
    Text,
    Unknown,
    Video,
    Voice,
    plain_text,
)

from .platform import Platform
from .values import account_message_id

MEDIA_PER_MESSAGE = 20
MESSAGE_S = 15.0
"""Time limit for all media of a message, in seconds from its arrival. Media that are not fetched by
then are marked as missing. The chat's next messages wait for this message. While they wait, the
download of their own media begins."""
AT_ONCE = 4
"""Maximum number of media of one message that use the chat's download slots at once. Thus the media
of the chat's next messages can be fetched while a message with twenty media is being fetched."""
QUOTED_LENGTH = 500
"""A reply quotes at most this many characters of the message that it answers."""
SUMMARY_LENGTH = 200
BUNDLE_MESSAGES = 100
BUNDLE_DEPTH = 3

_MEDIA: Mapping[type, tuple[Callable[[Media], Segment], Expected]] = {
    uniseg.Image: (Image, "image"),
    uniseg.Voice: (Voice, "audio"),
    uniseg.Audio: (Voice, "audio"),
    uniseg.Video: (Video, "video"),
    uniseg.File: (File, "file"),
}


FetchSlot = Callable[[], AbstractAsyncContextManager[Any]]
"""Takes one of the chat's download slots for the time of the context."""
Named = Callable[[str], str]
"""Returns the id that the inbox uses for a user id of the platform."""


def outline(pieces: list[uniseg.Segment], named: Named) -> Segments:
    """Return the segments of a message. Its media are not fetched."""
    segments: list[Segment] = []
    for piece in pieces:
        match piece:
            case uniseg.Text():
                segments.append(Text(piece.text))
            case uniseg.At(flag="user"):
                segments.append(Mention(named(piece.target)))
            case uniseg.AtAll():
                segments.append(Mention(EVERYONE))
            case uniseg.Reply():
                segments.append(Reply(piece.id))
            case uniseg.segment.Media():
                segments.append(_MEDIA[type(piece)][0](Media()))
            case uniseg.Reference():
                segments.append(Unknown("forward"))
            case _:
                segments.append(Unknown(piece.type))
    return tuple(segments)


class PieceReader:
    """Reads one message. The number of media and the total time are limited. If a medium or a
    quotation cannot be fetched, the returned segment says so, and nothing is raised.
    """

    def __init__(
        self,
        host: Host,
        platform: Platform,
        named: Named,
        *,
        chat_key: ChatKey,
        bot: Bot,
        event: Event,
        fetch_slot: FetchSlot = nullcontext,
    ) -> None:
        self.turn = anyio.Event()
        """Set when the chat's earlier messages are stored. A quoted message can be found only after
        that."""
        self._fetch_slot = fetch_slot
        self._slots = anyio.CapacityLimiter(AT_ONCE)
        self._host = host
        self._platform = platform
        self._named = named
        self._key = chat_key
        self._bot = bot
        self._event = event
        self._media_left = MEDIA_PER_MESSAGE
        self._deadline = anyio.current_time() + MESSAGE_S

    async def read(self, pieces: list[uniseg.Segment], depth: int = 0) -> Segments:
        """Convert pieces into segments and join adjacent texts. Media are fetched concurrently."""
        segments: list[Segment] = []
        for segment in await self._each(pieces, depth):
            last = segments[-1] if segments else None
            if isinstance(segment, Text) and isinstance(last, Text):
                segments[-1] = Text(last.text + segment.text)
            elif segment != Text(""):
                segments.append(segment)
        return tuple(segments)

    async def _each(self, pieces: list[uniseg.Segment], depth: int) -> list[Segment]:
        media = [n for n, piece in enumerate(pieces) if isinstance(piece, uniseg.segment.Media)]
        segments: dict[int, Segment] = {}

        async def read(index: int) -> None:
            segments[index] = await self._read(pieces[index], depth)

        async with anyio.create_task_group() as tasks:
            for index in media:
                tasks.start_soon(read, index)
            for index in sorted({*range(len(pieces))} - {*media}):
                await read(index)
        return [segments[index] for index in range(len(pieces))]

    async def _read(self, piece: uniseg.Segment, depth: int) -> Segment:
        match piece:
            case uniseg.Text():
                return Text(piece.text)
            case uniseg.At(flag="user"):
                return Mention(self._named(piece.target), piece.display or "")
            case uniseg.At():
                sign = "#" if piece.flag == "channel" else "@"
                return Text(f"{sign}{piece.display or piece.target} ")
            case uniseg.AtAll():
                return Mention(EVERYONE)
            case uniseg.Reply():
                origin_data = getattr(piece.origin, "data", None)
                sender = origin_data.get("user_id") if isinstance(origin_data, Mapping) else None
                return await self.quoted(Reply(piece.id, str(sender or ""), str(piece.msg or "")))
            case uniseg.Emoji():
                return Unknown("emoji", (piece.name or piece.id)[:SUMMARY_LENGTH])
            case uniseg.Reference():
                return await self._bundle(piece, depth)
            case uniseg.segment.Media():
                form, expect = _MEDIA[type(piece)]
                return form(await self._media(piece, expect))
        return Unknown(piece.type, str(piece)[:SUMMARY_LENGTH])

    async def quoted(self, reply: Reply) -> Reply:
        """Complete a reply. If its author is not known, the quoted message is looked up in the
        stored history, which also says whether the bot wrote it."""
        message_id, sender, text = reply.message_id, reply.sender_id, reply.text[:QUOTED_LENGTH]
        sender = self._named(sender)
        if self._platform.ids_of_chat:
            message_id = account_message_id(message_id, self._key)
        if not sender:
            await self.turn.wait()
            for record in reversed(await self._host.records(self._key)):
                if record.message_id == message_id:
                    by_bot = record.author is Author.BOT
                    sender = self._bot.self_id if by_bot else record.sender.user_id
                    text = text or plain_text(record.segments)[:QUOTED_LENGTH]
        return Reply(message_id, sender, text)

    async def _bundle(self, piece: uniseg.Reference, depth: int) -> Forward | Unknown:
        if depth >= BUNDLE_DEPTH:
            return Unknown("forward", f"nested deeper than {BUNDLE_DEPTH}")
        messages = []
        for node in piece.children[:BUNDLE_MESSAGES]:
            if isinstance(node, uniseg.CustomNode):
                content = node.content
                pieces = [uniseg.Text(content)] if isinstance(content, str) else list(content)
                inner = await self.read(pieces, depth + 1)
                sender, at = self._named(node.uid), node.time.timestamp()
                messages.append(ForwardedMessage(sender, node.name, inner, at))
        return Forward(tuple(messages)) if messages else Unknown("forward", piece.id or "")

    async def _media(self, piece: Any, expect: Expected) -> Media:
        name = "" if piece.name == piece.__default_name__ else piece.name
        if self._media_left <= 0:
            return Media(name=name, problem=f"only {MEDIA_PER_MESSAGE} media of a message are kept")
        self._media_left -= 1
        with anyio.move_on_after(self._deadline - anyio.current_time()):
            try:
                async with self._slots, self._fetch_slot():
                    return await self._store(piece, name, expect)
            except Exception as error:  # noqa: BLE001 - the stock adapter may raise anything
                logger.info("{}: a medium cannot be fetched: {!r}", self._key, error)
                return Media(name=name, problem=f"the platform did not hand it out: {error}"[:200])
        return Media(name=name, problem=f"not fetched within {MESSAGE_S:g} s")

    async def _store(self, piece: Any, name: str, expect: Expected) -> Media:
        keeper = self._host.media
        # A path is never opened: with a path, a peer could make the bot send any file.
        if piece.raw:
            raw = piece.raw.getvalue() if isinstance(piece.raw, BytesIO) else piece.raw
            return await keeper.keep_bytes(self._key, raw, name=name, expect=expect)
        content = await self._platform.download(self._bot, self._event, piece) or piece.url or ""
        if isinstance(content, bytes):
            return await keeper.keep_bytes(self._key, content, name=name, expect=expect)
        if not content:
            return Media(name=name, problem="the platform offers no address to fetch it from")
        return await keeper.keep_url(self._key, content, name=name, expect=expect)
