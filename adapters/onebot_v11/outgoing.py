"""Writes a `Delivery` as one call of OneBot v11."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from nekro_core.api.adapter import BundleLimits, Capabilities, PictureLimits, VoiceLimits
from nekro_core.api.chat import (
    EVERYONE,
    ChatKey,
    ChatKind,
    Delivery,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Text,
    Video,
    Voice,
)

from .incoming import wire_id

INLINE_BYTES = 10 * 1024 * 1024
"""Maximum number of bytes of a medium that is sent inside a call."""
CALL_BYTES = 30 * 1024 * 1024
"""Maximum number of bytes of media in one call. In base64 they become 40 MiB, and NapCat closes the
connection at a frame of 50 MiB."""

CAPABILITIES = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, Video, File, Forward}),
    text_length=4000,
    images_per_call=9,
    # Implementations convert voices to SILK with their own FFmpeg. The conversion of WAV never
    # fails; that of other formats may (NapNeko/NapCatQQ#222, #699, #1593).
    voice=VoiceLimits(formats=("wav", "silk"), converts=True),
    file_bytes=None,  # unlimited: `FileTransfer` sends large files in pieces or as a link
    picture=PictureLimits(
        types=("image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp"),
        max_bytes=INLINE_BYTES,
    ),
    # QQ shows at most a hundred messages of a bundle.
    bundle=BundleLimits(messages=100, media_bytes=CALL_BYTES),
)
FORWARDS = ("send_group_forward_msg", "send_private_forward_msg")
"""The actions that send a bundle. go-cqhttp introduced them; NapCat, LLBot and Lagrange have them
too."""

Json = dict[str, Any]
PlaceFile = Callable[[Media], Awaitable[str]]
"""Transfers a file to the OneBot implementation and returns the ``file`` parameter for the call
that sends the file. Raises `UnsendableMessage`."""


class UnsendableMessage(ValueError):
    """No OneBot v11 call can carry this delivery. The text is a reason that a person can read."""


@dataclass(frozen=True, slots=True)
class ActionCall:
    """One call to the OneBot implementation."""

    action: str
    params: Mapping[str, Any]


async def inline(media: Media) -> str:
    """Return a file's bytes as a ``base64://`` text. A path would not work, because the
    OneBot implementation would look for the file on its own machine."""
    name = media.name or "the file"
    try:
        path = anyio.Path(media.path)
        size = (await path.stat()).st_size
        if size > INLINE_BYTES:
            raise UnsendableMessage(
                f"{name} has {size} bytes: at most {INLINE_BYTES} go inside a call"
            )
        data = await path.read_bytes()
    except OSError as error:
        raise UnsendableMessage(f"{name} cannot be read: {error.strerror or error}") from None
    if not data:
        raise UnsendableMessage(f"{name} is empty")
    return f"base64://{base64.b64encode(data).decode()}"


async def call_for(delivery: Delivery, place: PlaceFile = inline, account: str = "") -> ActionCall:
    """Write a delivery as one call. ``place`` transfers its files. In a bundle, ``account`` becomes
    the author of messages whose author has no QQ number. Raises `UnsendableMessage`."""
    key = delivery.chat_key
    group = key.kind is ChatKind.GROUP
    where = _where(key)
    match delivery.segments:
        case (File(media),):
            file = await place(media)
            action = "upload_group_file" if group else "upload_private_file"
            return ActionCall(action, {**where, "file": file, "name": media.name or "file"})
        case (Forward(messages),):
            nodes = await _nodes(messages, place, account)
            return ActionCall(FORWARDS[not group], {**where, "messages": nodes})
    segments = _in_sending_order(delivery.segments)
    _refuse_mixtures(segments)
    _refuse_size(segments)
    message = [await _written(segment, place) for segment in segments]
    return ActionCall(
        "send_group_msg" if group else "send_private_msg", {**where, "message": message}
    )


def _where(key: ChatKey) -> Json:
    if key.kind is ChatKind.CHANNEL or key.thread is not None:
        raise UnsendableMessage(
            f"{key}: OneBot v11 has groups and private chats, no channels or threads"
        )
    return {"group_id" if key.kind is ChatKind.GROUP else "user_id": wire_id(key.native_id)}


def _in_sending_order(segments: tuple[Segment, ...]) -> list[Segment]:
    # QQ shows a reply only if it is the first segment.
    filled = [segment for segment in segments if segment != Text("")]
    replies = [segment for segment in filled if isinstance(segment, Reply)][:1]
    return replies + [segment for segment in filled if not isinstance(segment, Reply)]


def _refuse_mixtures(segments: list[Segment]) -> None:
    if not any(not isinstance(segment, Reply) for segment in segments):
        raise UnsendableMessage("the message is empty")
    for segment in segments:
        if type(segment) not in CAPABILITIES.inline | CAPABILITIES.alone:
            raise UnsendableMessage(f"OneBot v11 cannot send a segment of type {_kind(segment)}")
        if type(segment) in CAPABILITIES.alone and len(segments) > 1:
            raise UnsendableMessage(
                f"a segment of type {_kind(segment)} must be a message of its own"
            )


def _refuse_size(segments: list[Segment]) -> None:
    total = sum(
        segment.media.size for segment in segments if isinstance(segment, Image | Voice | Video)
    )
    if total > CALL_BYTES:
        raise UnsendableMessage(
            f"{total} bytes of media in one message: at most {CALL_BYTES}; send them one by one"
        )


async def _nodes(
    messages: tuple[ForwardedMessage, ...], place: PlaceFile, account: str
) -> list[Json]:
    """Write the messages of a bundle. NapCat and LLBot read ``user_id`` and ``nickname``, go-cqhttp
    reads ``uin`` and ``name``, and Lagrange reads either. Most implementations refuse a sender
    whose id is not a number."""
    if not messages:
        raise UnsendableMessage("the bundle is empty")
    nodes = []
    for message in messages:
        if not message.segments:
            raise UnsendableMessage("a message of the bundle is empty")
        _refuse_in_bundle(message)
        has_number = isinstance(wire_id(message.sender_id), int)
        user = message.sender_id if has_number else account
        name = message.sender_name or message.sender_id or user
        content = [await _written(segment, place) for segment in message.segments]
        who = {"user_id": user, "nickname": name, "uin": user, "name": name}
        nodes.append({"type": "node", "data": {**who, "content": content}})
    return nodes


def _refuse_in_bundle(message: ForwardedMessage) -> None:
    for segment in message.segments:
        if not isinstance(segment, Text | Image):
            raise UnsendableMessage(f"no segment of type {_kind(segment)} can be in a bundle")


async def _written(segment: Segment, place: PlaceFile) -> Json:
    match segment:
        case Text(text):
            return {"type": "text", "data": {"text": text}}
        case Mention(user_id):
            return {"type": "at", "data": {"qq": "all" if user_id == EVERYONE else user_id}}
        case Reply(message_id):
            return {"type": "reply", "data": {"id": message_id}}
        case Image(media):
            return {"type": "image", "data": {"file": await place(media)}}
        case Voice(media):
            return {"type": "record", "data": {"file": await place(media)}}
        case Video(media):
            return {"type": "video", "data": {"file": await place(media)}}
    raise UnsendableMessage(f"OneBot v11 cannot send a segment of type {_kind(segment)}")


def _kind(segment: Segment) -> str:
    return type(segment).__name__.lower()
