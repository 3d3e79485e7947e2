"""Makes any text from a peer safe to store and send.

JSON can spell half of a surrogate pair (``"\\ud83d"``) and Python can hold it, but a database or a
socket cannot take it. This module replaces it with U+FFFD when the text arrives.
"""

from typing import TypeVar

import msgspec

from nekro_core.chat import ChatMessage, Sender, decode_segments, encode_segments
from nekro_core.chat.segments import Segments, Unknown

MOST_SEGMENTS = 2_000
"""Of one message. People do not write as many; each costs time whenever its chat is shown to a
model."""

_Value = TypeVar("_Value")


def clean_text(text: str) -> str:
    """Replace each lone surrogate of a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_segments(segments: Segments) -> Segments:
    """Make every text of the segments encodable; returns the same object where nothing changes."""
    try:
        encode_segments(segments)
    except UnicodeEncodeError:
        repaired = _repair(msgspec.to_builtins(segments))
        return decode_segments(msgspec.json.encode(repaired))
    return segments


def clean_message(message: ChatMessage) -> ChatMessage:
    """Clean the texts of a message's sender, ids and segments. Of more than `MOST_SEGMENTS`
    segments the middle is replaced by one that says so: in a message with many mentions the text is
    before or after them."""
    sender, segments = message.sender, message.segments
    if len(segments) > MOST_SEGMENTS:
        left_out = Unknown("more", f"{len(segments) - MOST_SEGMENTS} more pieces")
        half = MOST_SEGMENTS // 2
        segments = (*segments[:half], left_out, *segments[-half:])
    return msgspec.structs.replace(
        message,
        message_id=clean_text(message.message_id),
        sender=Sender(clean_text(sender.user_id)[:255], clean_text(sender.name)[:255], sender.role),
        segments=clean_segments(segments),
    )


def _repair(value: _Value) -> _Value:
    match value:
        case str():
            return clean_text(value)  # type: ignore[return-value]
        case list() | tuple():
            return [_repair(item) for item in value]  # type: ignore[return-value]
        case dict():
            return {key: _repair(item) for key, item in value.items()}  # type: ignore[return-value]
    return value
