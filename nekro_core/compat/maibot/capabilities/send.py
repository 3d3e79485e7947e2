"""``ctx.send``: messages of a plugin, to the chat that asks or to one of its own choice."""

from collections.abc import Mapping
from typing import Any

from loguru import logger

from nekro_core.chat import (
    ChatKey,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Mention,
    Reply,
    Segment,
    Text,
    Video,
    Voice,
)
from nekro_core.compat.maibot.capabilities.call import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.current_call import current_call
from nekro_core.compat.maibot.results import decoded
from nekro_core.delivery.host import Expected
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.files import is_url
from nekro_core.tools.outcome import ToolFailure

_MOST_SEGMENTS = 200


async def text(asked: CapabilityCall) -> Answer:
    """``send.text``."""
    words = asked.text("text", "content", needed=True)
    return await _send(asked, [Text(words)])


async def image(asked: CapabilityCall) -> Answer:
    """``send.image`` and ``send.emoji``."""
    given = asked.text("image_base64", "emoji_base64", "image_data", "emoji_data", needed=True)
    ctx = context_of(asked, asked.chat())
    return await _send(asked, [await medium(ctx, "image", given)])


async def hybrid(asked: CapabilityCall) -> Answer:
    """``send.hybrid``: text, pictures, mentions and answers in one message."""
    ctx = context_of(asked, asked.chat())
    return await _send(asked, await segments(ctx, asked.args.get("segments")))


async def forward(asked: CapabilityCall) -> Answer:
    """``send.forward``: a bundle of messages."""
    given = asked.args.get("messages")
    if not isinstance(given, list) or not given:
        raise CapabilityError("send.forward: messages must be a list with something in it")
    ctx = context_of(asked, asked.chat())
    nodes = [await _node(ctx, each) for each in given[:_MOST_SEGMENTS] if isinstance(each, Mapping)]
    return await _send(asked, [Forward(tuple(nodes))])


async def custom(asked: CapabilityCall) -> Answer:
    """``send.custom``: a voice, a file, a video and whatever else is a piece of a message."""
    kind = asked.text("custom_type", "message_type", needed=True)
    data = asked.args.get("data", asked.args.get("content"))
    ctx = context_of(asked, asked.chat())
    return await _send(asked, await segments(ctx, [{"type": kind, "data": data}]))


def context_of(asked: CapabilityCall, chat: ChatKey) -> AgentCtx:
    """The context in which a plugin acts on a chat.

    While a handler runs for a chat, that is the handler's own: to write elsewhere needs the
    operator's leave, for the other chat may be the model's word. What runs for nobody (a task of
    ``on_load``, a timer) chooses its chat itself.
    """
    call = current_call()
    key = asked.live.plugin.key
    if call is None:
        return AgentCtx(services=asked.host.ports.services, chat=chat, owner=key)
    if call.over:
        services = asked.host.ports.services
        return AgentCtx(
            services=services,
            chat=call.ctx.chat,
            from_user_id=call.ctx.from_user_id,
            from_user_name=call.ctx.from_user_name,
            message_id=call.ctx.message_id,
            owner=key,
        )
    return call.ctx.called_for(key)


async def segments(ctx: AgentCtx, given: Any) -> list[Segment]:
    """Pieces of a message from a plugin's dicts. Raises `CapabilityError` for one that cannot be
    sent."""
    if isinstance(given, str):
        return [Text(given)]
    if not isinstance(given, list) or not given:
        raise CapabilityError("segments must be a list of dicts with type and data")
    return [await segment(ctx, each) for each in given[:_MOST_SEGMENTS]]


async def segment(ctx: AgentCtx, given: Any) -> Segment:
    """One piece. Raises `CapabilityError`."""
    if isinstance(given, str):
        return Text(given)
    if not isinstance(given, Mapping):
        raise CapabilityError(
            f"a segment is {type(given).__name__}: expected a dict with type and data"
        )
    kind = str(given.get("type", "")).strip().lower()
    data = given.get("data", given.get("content"))
    data = given.get("binary_data_base64") or data
    match kind:
        case "text":
            return Text(str(data or given.get("text") or ""))
        case "at" | "mention":
            inner = data if isinstance(data, Mapping) else {"target_user_id": data}
            user = inner.get("target_user_id") or inner.get("user_id") or inner.get("qq")
            return Mention(str(user or ""), str(inner.get("target_user_nickname") or ""))
        case "reply":
            inner = data if isinstance(data, Mapping) else {"target_message_id": data}
            return Reply(str(inner.get("target_message_id") or inner.get("id") or ""))
        case "image" | "emoji" | "imageurl" | "voice" | "voiceurl" | "record" | "audio":
            return await medium(ctx, _SORTS[kind], data, str(given.get("name") or ""))
        case "video" | "videourl" | "file":
            return await medium(ctx, _SORTS[kind], data, str(given.get("name") or ""))
        case "dict" if isinstance(data, Mapping):
            return await segment(ctx, data)
    raise CapabilityError(f"a segment of type {kind!r} cannot be sent")


_SORTS = {
    "image": "image",
    "emoji": "image",
    "imageurl": "image",
    "voice": "voice",
    "voiceurl": "voice",
    "record": "voice",
    "audio": "voice",
    "video": "video",
    "videourl": "video",
    "file": "file",
}
_EXPECTED: Mapping[str, Expected] = {"image": "image", "voice": "audio"}


async def medium(ctx: AgentCtx, sort: str, given: Any, name: str = "") -> Segment:
    """A picture, voice, video or file from base64, a data URL, an address or a dict of these.
    Raises `CapabilityError`."""
    if isinstance(given, Mapping):
        name = name or str(given.get("name") or given.get("file_name") or "")
        keys = ("base64", "binary_data_base64", "data", "url", "file")
        given = next((given[key] for key in keys if given.get(key)), "")
    if isinstance(given, bytes | bytearray):
        source: str | bytes = bytes(given)
    elif is_url(str(given)) and not str(given).startswith(("data:", "base64://")):
        source = str(given)
    else:
        source = decoded(str(given)) or b""
        if not source:
            raise CapabilityError(f"{sort}: expected base64 or an address, got {str(given)[:40]!r}")
    try:
        kept = await ctx.medium(source, name=name, expect=_EXPECTED.get(sort, "file"))
    except ToolFailure as error:
        raise CapabilityError(f"{sort}: {error}") from None
    match sort:
        case "image":
            return Image(kept)
        case "voice":
            return Voice(kept)
        case "video":
            return Video(kept)
    return File(kept)


async def _node(ctx: AgentCtx, given: Mapping[str, Any]) -> ForwardedMessage:
    inner = given.get("data") if isinstance(given.get("data"), Mapping) else given
    assert isinstance(inner, Mapping)
    content = next(
        (inner[key] for key in ("segments", "content", "message", "text") if inner.get(key)), ""
    )
    pieces = await segments(ctx, content if isinstance(content, list) else str(content))
    user = inner.get("user_id") or inner.get("uin") or ""
    name = inner.get("user_nickname") or inner.get("nickname") or inner.get("name") or ""
    return ForwardedMessage(str(user), str(name), tuple(pieces))


async def _send(asked: CapabilityCall, pieces: list[Segment]) -> Answer:
    chat = asked.chat()
    ctx = context_of(asked, chat)
    answers = asked.text("reply_message_id", "reply_to_message_id", "reply_to")
    if not answers and asked.args.get("set_reply") is True:
        answers = ctx.message_id
    if answers and not any(isinstance(each, Reply) for each in pieces):
        pieces = [Reply(answers), *pieces]
    try:
        receipts = await ctx.send(pieces, chat_key=chat)
    except ToolFailure as error:
        logger.warning("plugin {}: {} to {}: {}", asked.live.plugin_id, asked.name, chat, error)
        raise CapabilityError(str(error)) from None
    sent = next((each.message_id for each in receipts if each.message_id), None)
    return success(sent=True, message_id=sent)


TABLE: Mapping[str, CapabilityEntry] = {
    "send.text": CapabilityEntry(text),
    "send.image": CapabilityEntry(image),
    "send.emoji": CapabilityEntry(image),
    "send.hybrid": CapabilityEntry(hybrid),
    "send.forward": CapabilityEntry(
        forward, "works; as quoted words where a platform has no bundles of messages"
    ),
    "send.custom": CapabilityEntry(
        custom, "partly: text, image, emoji, voice, video, file, at, reply; not a platform's cards"
    ),
}
