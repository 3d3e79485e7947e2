"""Makes any text from outside the bot safe to store and send.

JSON can contain half of a surrogate pair (``"\\ud83d"``), and so can a Python string. Such a half
cannot be encoded for a database or a socket. So this module replaces each half with U+FFFD when the
text arrives.
"""

from typing import TypeVar

import msgspec

from nekro_core.chat import ChatMessage, Sender, decode_segments, encode_segments
from nekro_core.chat.segments import Segments, Unknown

MOST_SEGMENTS = 2_000
"""Maximum number of segments in one message. People do not write so many, and each segment costs
time in every prompt of its chat."""

_Value = TypeVar("_Value")


def clean_text(text: str) -> str:
    """Replace each lone surrogate of a text with U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_segments(segments: Segments) -> Segments:
    """Make all texts of the segments encodable. Returns the same object if nothing changes."""
    try:
        encode_segments(segments)
    except UnicodeEncodeError:
        repaired = _repair(msgspec.to_builtins(segments))
        return decode_segments(msgspec.json.encode(repaired))
    return segments


def clean_message(message: ChatMessage) -> ChatMessage:
    """Clean the texts of a message's sender, chat, ids and segments. If the message has more than
    `MOST_SEGMENTS` segments, one segment that gives their number replaces the segments in the
    middle. The beginning and the end stay: in a message with many mentions, the text is before or
    after the mentions."""
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
        chat_name=clean_text(message.chat_name)[:255],
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
