"""Converts the segments of a delivery into pieces of the library uniseg, for one platform call."""

from collections.abc import Mapping

import anyio
from nonebot.adapters import Bot
from nonebot_plugin_alconna import uniseg

from nekro_core.api.chat import (
    EVERYONE,
    ChatKey,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Segments,
    Text,
    Video,
    Voice,
)

from .bridge import CannotSend
from .platform import Platform
from .values import native_message_id

_MEDIA: Mapping[type, type[uniseg.segment.Media]] = {
    Image: uniseg.Image,
    Voice: uniseg.Voice,
    Video: uniseg.Video,
    File: uniseg.File,
}


async def to_uniseg(
    segments: Segments, platform: Platform, key: ChatKey, own: Mapping[str, str], bot: Bot
) -> list[uniseg.Segment]:
    """Convert the segments of one call to the chat ``key``. ``bot`` is the sending account, and
    ``own`` maps all accounts to their user ids. Raises `CannotSend`."""
    filled = [segment for segment in segments if segment != Text("")]
    replies = [segment for segment in filled if isinstance(segment, Reply)][:1]
    body = [segment for segment in filled if not isinstance(segment, Reply)]
    if not body:
        raise CannotSend("the message is empty")
    can = platform.capabilities_of(key)
    for segment in body:
        kind = type(segment).__name__.lower()
        if type(segment) not in can.inline | can.alone:
            raise CannotSend(f"{platform.name} cannot send a segment of type {kind}")
        if type(segment) in can.alone and len(body) > 1:
            raise CannotSend(f"a segment of type {kind} must be a message of its own")
    if isinstance(body[0], Forward):
        return [await _bundle(body[0], platform, own, bot)]
    pieces = [await _written(segment, platform, own, bot) for segment in replies + body]
    return platform.arrange_pieces(pieces)


async def _bundle(
    bundle: Forward, platform: Platform, own: Mapping[str, str], bot: Bot
) -> uniseg.Reference:
    nodes = []
    for message in bundle.messages:
        content = [await _written(segment, platform, own, bot) for segment in message.segments]
        own_id = own.get(bot.self_id, bot.self_id)
        user = platform.user(platform.bundle_author(message, own_id), bot)
        nodes.append(uniseg.CustomNode(user, message.sender_name or message.sender_id, content))
    if not nodes:
        raise CannotSend("the bundle is empty")
    return uniseg.Reference(nodes=nodes)


async def _written(
    segment: Segment, platform: Platform, own: Mapping[str, str], bot: Bot
) -> uniseg.Segment:
    match segment:
        case Text(text, True):
            return platform.markdown(text)
        case Text(text):
            return platform.text(text)
        case Mention(user_id, name):
            if user_id == EVERYONE:
                return uniseg.AtAll()
            return platform.mention(own.get(user_id) or platform.user(user_id, bot), name)
        case Reply(message_id):
            return uniseg.Reply(
                native_message_id(message_id) if platform.ids_of_chat else message_id
            )
        case Image(media) | Voice(media) | Video(media) | File(media):
            nearest = platform.nearest.get(type(segment), type(segment))
            if nearest is Text:
                if not await anyio.Path(media.path).is_file():
                    raise CannotSend(f"{media.name or 'the file'} is not there")
                return uniseg.Text(f"[{type(segment).__name__.lower()}] {media.path}")
            form = _MEDIA[nearest]
            data = await bytes_of(media, platform.inline_bytes)
            name = media.name or form.__default_name__
            return form(raw=data, mimetype=media.mime, name=name)
    raise CannotSend(f"{platform.name} cannot send a {type(segment).__name__.lower()}")


async def bytes_of(media: Media, most: int) -> bytes:
    """Return a file's bytes, because the platform cannot read a path of this machine. Raises
    `CannotSend`."""
    name = media.name or "the file"
    try:
        path = anyio.Path(media.path)
        size = (await path.stat()).st_size
        if size > most:
            raise CannotSend(f"{name} has {size} bytes: at most {most} go to this platform")
        data = await path.read_bytes()
    except OSError as error:
        raise CannotSend(f"{name} cannot be read: {error.strerror or error}") from None
    if not data:
        raise CannotSend(f"{name} is empty")
    return data
