"""Turns the result of a tool of an MCP server into a tool outcome of the bot."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from nekro_core.tools.content import MAX_MEDIUM_BYTES
from nekro_core.tools.content import AudioContent as Sound
from nekro_core.tools.content import ImageContent as Picture
from nekro_core.tools.mcp_client.configuration import McpServerConfig
from nekro_core.tools.media import ResultMedia
from nekro_core.tools.outcome import ToolFailure, ToolReturn, ToolReturnMedia

_MAX_CHARS = 4 * 1024 * 1024
_MAX_FAULT = 2000
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SOUNDS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def outcome_of_result(
    result: CallToolResult, server: McpServerConfig
) -> ToolReturn | ToolReturnMedia:
    """Convert a result: its text, and the media that models accept. If the result has structured
    content, the model's code gets that as the value. The server's secrets are removed from texts,
    names of media and structured content. Raises `ToolFailure` if the result is an error."""
    words, media = _read(result.content, server)
    text = server.without_secrets("\n".join(words))
    if result.is_error:
        raise ToolFailure(text[:_MAX_FAULT] or "the server reports an error without a text")
    if len(text) > _MAX_CHARS:
        raise ToolFailure(f"the result is {len(text)} characters long, over {_MAX_CHARS}")
    if media:
        return ToolReturnMedia(text, media)
    structured: Any = result.structured_content
    if structured is None:
        return ToolReturn(text)
    # The protocol wraps a list or a number in an object with this key.
    value = structured["result"] if set(structured) == {"result"} else structured
    return ToolReturn(server.cleaned(value), text)


def _read(
    content: Sequence[Any], server: McpServerConfig
) -> tuple[list[str], tuple[ResultMedia, ...]]:
    words: list[str] = []
    media: list[ResultMedia] = []
    for place, each in enumerate(content, 1):
        match each:
            case TextContent():
                words.append(each.text)
            case ImageContent() | AudioContent():
                media.append(_medium(place, each.mime_type, each.data))
            case ResourceLink():
                words.append(f"[resource] {each.name}: {each.uri}")
            case EmbeddedResource(resource=BlobResourceContents() as blob):
                media.append(_medium(place, blob.mime_type or "", blob.blob, str(blob.uri)))
            case EmbeddedResource(resource=TextResourceContents() as text):
                words.append(f"[resource] {text.uri}\n{text.text}")
            case _:
                words.append(f"[{type(each).__name__}: nothing that can be shown]")
    named = (
        replace(
            each,
            type=server.without_secrets(each.type),
            mime=server.without_secrets(each.mime),
            name=server.without_secrets(each.name),
        )
        for each in media
    )
    return words, tuple(named)


def _medium(place: int, mime: str, data: str, name: str = "") -> ResultMedia:
    kind = mime.partition("/")[0] or "file"
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return ResultMedia(
            place=place, type=kind, mime=mime, name=name, note="it is no valid base64"
        )
    if len(decoded) > MAX_MEDIUM_BYTES:
        note = f"{len(decoded)} bytes are too many to show"
        return ResultMedia(place=place, type=kind, mime=mime, name=name, note=note)
    shown: Picture | Sound | None = None
    if mime in _PICTURES:
        shown = Picture(data=decoded, mime=mime)
    elif mime in _SOUNDS:
        shown = Sound(data=decoded, format="wav" if _SOUNDS[mime] == "wav" else "mp3")
    note = "" if shown else f"{len(decoded)} bytes that cannot be shown"
    return ResultMedia(place=place, type=kind, mime=mime, name=name, note=note, content=shown)
