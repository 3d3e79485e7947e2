"""Reads and checks content parts for a model (text, pictures, sound) in OpenAI's format.

Source: the ``content`` array of the Chat Completions API (``text``, ``image_url``,
``input_audio``).
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nekro_core.system.errors import NekroError

MAX_PARTS = 32
MAX_MEDIUM_BYTES = 20 * 1024 * 1024
"""Maximum number of bytes of one decoded picture or sound. The large providers accept a request
with a medium of this size."""

_DATA_URL = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?P<rest>[^,]*),", re.ASCII)
_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n.{4}IHDR.{8}", re.DOTALL), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a.{4}", re.DOTALL), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)


class ContentError(NekroError, ValueError):
    """The content is not in the form that models accept: the list of parts is empty or too long, or
    a part is wrong. The message says which part, what it contains and what was expected."""


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text.

    Attributes:
        text: The text.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContent:
    """A picture: its bytes and their type, or an ``http(s)`` URL.

    Attributes:
        data: The bytes, at most 20 MiB (`MAX_MEDIUM_BYTES`); empty if there is a URL.
        mime: The type of the bytes: ``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp``.
        url: The URL; empty if there are bytes.
    """

    data: bytes = b""
    mime: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioContent:
    """A sound.

    Attributes:
        data: The bytes, at most 20 MiB (`MAX_MEDIUM_BYTES`).
        format: ``wav`` or ``mp3``.
    """

    data: bytes
    format: Literal["wav", "mp3"]


Content = TextContent | ImageContent | AudioContent


def contents(value: Any) -> tuple[Content, ...]:
    """Read parts from a list of parts, from a single part, or from a message object that has them
    as ``content``.

    Raises `ContentError`.
    """
    if isinstance(value, Mapping) and "type" not in value and "content" in value:
        value = value["content"]
    if isinstance(value, Mapping | str):
        value = [value]
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        raise ContentError(f"expected a list of parts, got {_kind(value)}")
    if not value:
        raise ContentError("the list of parts is empty")
    if len(value) > MAX_PARTS:
        raise ContentError(f"{len(value)} parts: at most {MAX_PARTS}")
    found: list[Content] = []
    for number, part in enumerate(value, 1):
        try:
            found.append(_content(part))
        except ContentError as error:
            raise ContentError(f"part {number} of {len(value)}: {error}") from None
    return tuple(found)


def _content(part: Any) -> Content:
    if isinstance(part, str):
        return TextContent(part)
    if not isinstance(part, Mapping):
        raise ContentError(f"expected a dict with a 'type', got {_kind(part)}")
    match part.get("type"):
        case "text":
            return TextContent(_text(part, "text"))
        case "image_url":
            picture = part.get("image_url")
            url = picture if isinstance(picture, str) else _text(_mapping(part, "image_url"), "url")
            return _image(url)
        case "input_audio":
            return _audio(_mapping(part, "input_audio"))
        case other:
            raise ContentError(f"type {other!r}: expected 'text', 'image_url' or 'input_audio'")


def _image(url: str) -> ImageContent:
    if url.startswith(("http://", "https://")):
        return ImageContent(url=url)
    head = _DATA_URL.match(url)
    if not head:
        raise ContentError(
            f"image_url {_start(url)}: expected http(s)://… or data:image/…;base64,…"
        )
    if not (head["mime"] or "").startswith("image/") or "base64" not in head["rest"]:
        raise ContentError(f"image_url {_start(url)}: expected data:image/…;base64,…")
    data = _decoded(url[head.end() :], "image_url")
    for signature, mime in _SIGNATURES:
        if signature.match(data):
            return ImageContent(data=data, mime=mime)
    raise ContentError("image_url: the data is not a PNG, JPEG, GIF or WebP picture")


def _audio(sound: Mapping[str, Any]) -> AudioContent:
    data = _decoded(_text(sound, "data"), "input_audio")
    match sound.get("format"):
        case "wav":
            if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
                raise ContentError("input_audio: the data is not a WAV file")
            return AudioContent(data=data, format="wav")
        case "mp3":
            return AudioContent(data=data, format="mp3")
        case other:
            raise ContentError(f"input_audio format {other!r}: expected 'wav' or 'mp3'")


def _decoded(text: str, part: str) -> bytes:
    if len(text) > MAX_MEDIUM_BYTES * 4 // 3 + 4:
        raise ContentError(f"{part}: more than {MAX_MEDIUM_BYTES} bytes")
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ContentError(f"{part}: the base64 text {_start(text)} does not decode") from None
    if not data:
        raise ContentError(f"{part}: there is no data")
    return data


def _mapping(part: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = part.get(name)
    if not isinstance(value, Mapping):
        raise ContentError(f"{name!r} must be a dict, got {_kind(value)}")
    return value


def _text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    if not isinstance(value, str):
        raise ContentError(f"{name!r} must be str, got {_kind(value)}")
    return value


def _start(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
