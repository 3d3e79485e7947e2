"""Converts dicts from MaiBot plugins to segments. The module `messages` converts segments to
dicts."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from nekro_core.chat import (
    File,
    Forward,
    ForwardedMessage,
    Image,
    Mention,
    Reply,
    Segment,
    Text,
    Unknown,
    Video,
    Voice,
)
from nekro_core.compat.maibot.formats.results import decoded
from nekro_core.delivery.media_contract import Expected
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.files import is_url
from nekro_core.system.errors import NekroError
from nekro_core.tools.outcome import ToolFailure

_MOST_SEGMENTS = 200
_KINDS = {
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
    "fileurl": "file",
}
_EXPECTED: Mapping[str, Expected] = {"image": "image", "voice": "audio"}
_SOURCES = ("base64", "binary_data_base64", "data", "url", "file", "path", "file_path")
_LONGEST_PATH = 4096
_LONGEST_SUMMARY = 200


class InvalidSegment(NekroError):
    """A segment cannot be read or sent. The text is for the plugin's author."""


async def segments_from(ctx: AgentCtx, given: Any) -> list[Segment]:
    """Convert a text, or a list of dicts with type and data, to segments. Only the first 200 dicts
    of a list are used.

    Raises `InvalidSegment` for a segment that cannot be sent.
    """
    if isinstance(given, str):
        return [Text(given)]
    if not isinstance(given, list) or not given:
        raise InvalidSegment("segments must be a list of dicts with type and data")
    return [await _segment(ctx, each) for each in given[:_MOST_SEGMENTS]]


async def received_segments(ctx: AgentCtx, given: list[Any]) -> list[Segment]:
    """Convert the dicts of a message that a plugin's message gateway has received. A dict that
    cannot be converted becomes an `Unknown` segment, so that the rest of the message is not
    lost."""
    made: list[Segment] = []
    for each in given[:_MOST_SEGMENTS]:
        try:
            made.append(await _segment(ctx, each))
        except InvalidSegment:
            made.append(_unknown(each))
    return made


def _unknown(given: Any) -> Unknown:
    if not isinstance(given, Mapping):
        return Unknown("unknown", str(given)[:_LONGEST_SUMMARY])
    kind, data = str(given.get("type") or "unknown"), given.get("data")
    if kind == "dict" and isinstance(data, Mapping):
        return _unknown(data)
    return Unknown(kind, data[:_LONGEST_SUMMARY] if isinstance(data, str) else "")


async def _segment(ctx: AgentCtx, given: Any) -> Segment:
    """Convert a text or a dict to a segment. Raises `InvalidSegment`."""
    if isinstance(given, str):
        return Text(given)
    if not isinstance(given, Mapping):
        raise InvalidSegment(
            f"a segment is {type(given).__name__}: expected a dict with type and data"
        )
    kind = str(given.get("type", "")).strip().lower()
    data = given.get("data", given.get("content"))
    data = given.get("binary_data_base64") or data
    match kind:
        case "text":
            inner = data.get("text") if isinstance(data, Mapping) else data
            return Text(str(inner or given.get("text") or ""))
        case "at" | "mention":
            inner = data if isinstance(data, Mapping) else {"target_user_id": data}
            user = inner.get("target_user_id") or inner.get("user_id") or inner.get("qq")
            name = inner.get("target_user_cardname") or inner.get("target_user_nickname") or ""
            return Mention(str(user or ""), str(name))
        case "reply":
            inner = data if isinstance(data, Mapping) else {"target_message_id": data}
            number = inner.get("target_message_id") or inner.get("message_id") or inner.get("id")
            sender = inner.get("target_message_sender_id") or ""
            content = inner.get("target_message_content") or ""
            return Reply(str(number or ""), str(sender), str(content))
        case _ if kind in _KINDS:
            return await medium_from(ctx, _KINDS[kind], data, str(given.get("name") or ""))
        case "forward" if isinstance(data, list):
            return await forward_from(ctx, data)
        case "dict" if isinstance(data, Mapping):
            return await _segment(ctx, data)
    raise InvalidSegment(
        f"a segment of type {kind!r} cannot be sent; there are text, at, reply, forward, "
        f"{', '.join(_KINDS)}"
    )


async def medium_from(ctx: AgentCtx, kind: str, given: Any, name: str = "") -> Segment:
    """Make an image, voice, video or file segment. ``given`` is bytes, base64, a data URL, an
    address, the path of a file that the plugin has, or a dict with one of them. Raises
    `InvalidSegment`."""
    if isinstance(given, Mapping):
        name = name or str(given.get("name") or given.get("file_name") or "")
        given = next((given[key] for key in _SOURCES if given.get(key)), "")
    source: str | bytes
    if isinstance(given, bytes | bytearray):
        source = bytes(given)
    elif is_url(str(given)) and not str(given).startswith(("data:", "base64://")):
        source = str(given)
    else:
        source = decoded(str(given)) or _path_in(str(given))
        if not source:
            raise InvalidSegment(
                f"{kind}: expected base64, an address or a path, got {str(given)[:40]!r}"
            )
    try:
        media = await ctx.medium(source, name=name, expect=_EXPECTED.get(kind, "file"))
    except (ToolFailure, OSError) as error:
        raise InvalidSegment(f"{kind}: {error}") from None
    match kind:
        case "image":
            return Image(media)
        case "voice":
            return Voice(media)
        case "video":
            return Video(media)
    return File(media)


def _path_in(text: str) -> str:
    """Return the path in a text such as ``file:///tmp/song.mp3`` or ``/tmp/song.mp3``; empty for
    any other text. The code that reads the file decides whether the plugin may send it."""
    path = unquote(text[7:]) if text.startswith("file://") else text
    return path if path.startswith("/") and len(path) <= _LONGEST_PATH else ""


async def forward_from(ctx: AgentCtx, given: list[Any]) -> Forward:
    """Make a bundle of forwarded messages. Only the first 200 messages are used. Raises
    `InvalidSegment`."""
    nodes = [await _node(ctx, each) for each in given[:_MOST_SEGMENTS] if isinstance(each, Mapping)]
    return Forward(tuple(nodes))


async def _node(ctx: AgentCtx, given: Mapping[str, Any]) -> ForwardedMessage:
    inner = given.get("data") if isinstance(given.get("data"), Mapping) else given
    assert isinstance(inner, Mapping)
    content = next(
        (inner[key] for key in ("segments", "content", "message", "text") if inner.get(key)), ""
    )
    pieces = await segments_from(ctx, content if isinstance(content, list) else str(content))
    user = inner.get("user_id") or inner.get("uin") or ""
    name = inner.get("user_nickname") or inner.get("nickname") or inner.get("name") or ""
    return ForwardedMessage(str(user), str(name), tuple(pieces))
