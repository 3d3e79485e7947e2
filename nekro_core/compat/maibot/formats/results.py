"""Converts the return value of a MaiBot tool to a `ToolReturn` or `ToolReturnMedia`."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from nekro_core.tools.content import (
    MAX_MEDIUM_BYTES,
    Content,
    ContentError,
    ImageContent,
    contents,
)
from nekro_core.tools.media import ResultMedia
from nekro_core.tools.outcome import ToolFailure, ToolReturn, ToolReturnMedia

FAILED = "the tool of the plugin failed"
_MEDIA = ("image", "audio", "resource_link", "resource", "binary")
_DATA_URL = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?[^,]*;base64,", re.ASCII)
_MAX_ITEMS = 32


def outcome(value: Any) -> ToolReturn | ToolReturnMedia:
    """Convert the return value of a tool: a dict, a text, a pair of success and text, or any other
    value.

    If the value is a dict without ``content_items``, the model's code gets the whole dict. If it
    has such items, the code gets the other fields of the dict; or, if there are media among the
    items, a text and a list of the media. The text, which is also what a model reads that calls
    functions natively, is the first of these that exists: the ``content`` of the dict, its
    ``message``, the texts among its ``content_items``, the dict as JSON. Raises `ToolFailure` if
    the value reports a failure.
    """
    if isinstance(value, list | tuple) and value and isinstance(value[0], bool):
        words = str(value[1]) if len(value) > 1 and value[1] is not None else ""
        if not value[0]:
            raise ToolFailure(words or FAILED)
        return ToolReturn(words)
    if not isinstance(value, Mapping):
        return ToolReturn("" if value is None else value)
    if not isinstance(value.get("stop_after_execution", False), bool):
        came = type(value["stop_after_execution"]).__name__
        raise ToolFailure(f"its result's 'stop_after_execution' must be true or false, got {came}")
    words = str(value.get("content") or value.get("message") or "").strip()
    if not bool(value.get("success", True)):
        raise ToolFailure(str(value.get("error") or words or FAILED))
    ends = value.get("stop_after_execution") is True
    items = value.get("content_items")
    if isinstance(items, list) and items:
        return _with_items(value, words, items, ends=ends)
    return ToolReturn(dict(value), words or _json(value), ends)


def _with_items(
    value: Mapping[str, Any], words: str, items: list[Any], *, ends: bool
) -> ToolReturn | ToolReturnMedia:
    media: list[ResultMedia] = []
    texts: list[str] = []
    # A place counts texts too, not only media, because a plugin may tell the model the place of an
    # item in the list.
    for place, item in enumerate(items[:_MAX_ITEMS], 1):
        if not isinstance(item, Mapping):
            continue
        kind = str(item.get("type") or item.get("content_type") or "").lower()
        if kind in _MEDIA:
            media.append(_medium(place, kind, item))
        elif text := str(item.get("text") or "").strip():
            texts.append(text)
    rest = {key: each for key, each in value.items() if key != "content_items"}
    words = words or "\n".join(texts)
    if not media:
        return ToolReturn(rest, words or _json(rest), ends)
    return ToolReturnMedia(words or _json(rest), tuple(media), ends)


def _medium(place: int, kind: str, item: Mapping[str, Any]) -> ResultMedia:
    mime = str(item.get("mime_type") or "").lower()
    uri = str(item.get("uri") or "")
    encoded = str(item.get("data") or item.get("base64") or "")
    if head := _DATA_URL.match(encoded) or _DATA_URL.match(uri):
        encoded = (encoded if _DATA_URL.match(encoded) else uri)[head.end() :]
        mime, uri = mime or head["mime"] or "", ""
    notes = [str(item.get("description") or "").strip(), str(item.get("text") or "").strip()]
    if uri and not uri.startswith("data:"):
        notes.append(uri)
    content = _content(kind, mime, encoded, uri)
    if isinstance(content, str):
        notes.append(content)
    return ResultMedia(
        place=place,
        type=kind,
        mime=mime,
        name=str(item.get("name") or ""),
        note="\n".join(filter(None, notes)),
        content=None if isinstance(content, str) else content,
    )


def _content(kind: str, mime: str, encoded: str, uri: str) -> Content | str | None:
    """Return the content of an image or a sound. If it cannot be shown, return a text with the
    reason. For any other item, return None."""
    picture = kind == "image" or (kind == "binary" and mime.startswith("image/"))
    if picture and not encoded and uri.startswith(("http://", "https://")):
        return ImageContent(url=uri)
    if not encoded or not (picture or kind == "audio"):
        return None
    data = decoded(encoded)
    if data is None:
        return "(its data cannot be read)"
    plain = base64.b64encode(data).decode()
    part: dict[str, Any]
    if picture:
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{plain}"}}
    else:
        sound = "wav" if data[:4] == b"RIFF" else "mp3"
        part = {"type": "input_audio", "input_audio": {"data": plain, "format": sound}}
    try:
        (shown,) = contents([part])
    except ContentError as error:
        return f"(it cannot be shown: {error})"
    return shown


def decoded(text: str) -> bytes | None:
    """Decode base64. Padding may be missing, and line breaks and the head of a data URL are
    allowed.

    Returns None if the text is not base64, if it is empty, or if it has more than
    `MAX_MEDIUM_BYTES`.
    """
    if head := _DATA_URL.match(text):
        text = text[head.end() :]
    text = text.removeprefix("base64://")
    if len(text) > MAX_MEDIUM_BYTES * 4 // 3 + 4:
        return None
    plain = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""
