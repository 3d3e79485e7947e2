"""Makes message segments in JSON, and converts CQ codes, which are an older text form of
segments."""

import re
from typing import Any

Json = dict[str, Any]


def text(content: str) -> Json:
    return {"type": "text", "data": {"text": content}}


def at(user: int | str) -> Json:
    return {"type": "at", "data": {"qq": str(user)}}


def reply(message_id: int | str) -> Json:
    return {"type": "reply", "data": {"id": str(message_id)}}


def image(file: str, url: str = "") -> Json:
    return {"type": "image", "data": {"file": file, **({"url": url} if url else {})}}


def record(file: str, url: str = "") -> Json:
    return {"type": "record", "data": {"file": file, **({"url": url} if url else {})}}


def segments_of(what: str | Json | list[Json]) -> list[Json]:
    """A person's message as a list of segments. A text is parsed as a string with CQ codes."""
    if isinstance(what, str):
        return [text(what)]
    return [what] if isinstance(what, dict) else list(what)


def cq_text(segments: list[Json]) -> str:
    """A message as a string with CQ codes, for `raw_message` and for old implementations."""
    return "".join(
        _escape(str(segment["data"]["text"]))
        if segment["type"] == "text"
        else "[CQ:"
        + ",".join(
            [
                segment["type"],
                *(f"{key}={_escape(str(value), comma=True)}" for key, value in data_of(segment)),
            ]
        )
        + "]"
        for segment in segments
    )


def data_of(segment: Json) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in segment["data"].items() if value is not None]


def parse_cq(string: str) -> list[Json]:
    """The segments of a message that was sent as a string with CQ codes."""
    segments: list[Json] = []
    position = 0
    for found in re.finditer(r"\[CQ:([A-Za-z0-9_.-]+)((?:,[^,\]]+=[^,\]]*)*)\]", string):
        if found.start() > position:
            segments.append(text(_unescape(string[position : found.start()])))
        pairs = (pair.split("=", 1) for pair in found[2].split(",")[1:])
        data = {key: _unescape(value) for key, value in pairs}
        segments.append({"type": found[1], "data": data})
        position = found.end()
    if position < len(string):
        segments.append(text(_unescape(string[position:])))
    return segments


def _escape(value: str, *, comma: bool = False) -> str:
    value = value.replace("&", "&amp;").replace("[", "&#91;").replace("]", "&#93;")
    return value.replace(",", "&#44;") if comma else value


def _unescape(value: str) -> str:
    for code, character in (("&#44;", ","), ("&#91;", "["), ("&#93;", "]"), ("&amp;", "&")):
        value = value.replace(code, character)
    return value
