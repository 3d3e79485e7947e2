"""Reads the changes that a message hook of a plugin has made to its message.

In nekro-agent, the object that a hook gets is stored after the hook. So plugins join several
messages into one, or remove words, by setting ``content_text`` and ``content_data``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from loguru import logger
from pydantic import ValidationError

from nekro_core.chat import ChatMessage, Mention, Reply, Segment, Segments, Text
from nekro_core.chat.mentions import text_segments
from nekro_core.chat.rewording import reworded
from nekro_core.compat.nekro_agent.legacy_message import LegacyChatMessage, content_text
from nekro_core.compat.nekro_agent.legacy_segments import (
    ChatMessageSegment,
    ChatMessageSegmentAt,
    segment_from_dict,
)

_MOST_SEGMENTS = 1000
"""How many segments of a changed message are read. Without this limit a plugin could make a message
without end."""


def changed_segments(message: ChatMessage, given: Any) -> Segments | None:
    """Read the changes of a message.

    Args:
        message: The message before the hook.
        given: The `LegacyChatMessage` that the hook got.

    Returns:
        The changed segments; None if nothing was changed. A medium stays if the plugin has kept its
        segment. A medium that does not come from this message becomes text.
    """
    if not isinstance(given, LegacyChatMessage):
        return None
    before = LegacyChatMessage.of(message)
    # A plugin may have set these attributes to any value.
    data: Any = given.content_data
    text: Any = given.content_text
    made = message.segments
    if isinstance(data, Sequence) and [*data] != before.content_data:
        made = _of_data(message.segments, before.content_data, data)
    if isinstance(text, str) and text != before.content_text and not _told_by(made, text):
        made = _with_mentions(made, reworded(made, content_text(made), text))
    return made if made != message.segments else None


def _told_by(segments: Segments, text: str) -> bool:
    """Return True if the segments already have the words of a text, and also mentions or media,
    which the text cannot contain. White space may differ."""
    more = any(not isinstance(each, Text | Reply) for each in segments)
    return more and "".join(content_text(segments).split()) == "".join(text.split())


def _with_mentions(before: Segments, now: Segments) -> Segments:
    """Turn the mentions that a plugin has written into its new text back into mention segments."""
    made: list[Segment] = []
    for each in now:
        if isinstance(each, Text) and each not in before:
            made += text_segments(each.text)
        else:
            made.append(each)
    return tuple(made)


def _of_data(
    segments: Segments, before: Sequence[ChatMessageSegment], now: Sequence[Any]
) -> Segments:
    own = [each for each in segments if not isinstance(each, Reply)]
    left = list(zip(before, own, strict=True))
    made: list[Segment] = [each for each in segments if isinstance(each, Reply)]
    for each in now[:_MOST_SEGMENTS]:
        shown = _segment(each)
        place = next((i for i, (old, _) in enumerate(left) if old == shown), None)
        if place is not None:
            made.append(left.pop(place)[1])
        elif isinstance(shown, ChatMessageSegmentAt):
            made.append(Mention(shown.target_platform_userid, shown.target_nickname))
        elif shown is not None and shown.text:
            made.append(Text(shown.text))
    return tuple(made)


def _segment(given: Any) -> ChatMessageSegment | None:
    if isinstance(given, ChatMessageSegment):
        return given
    if isinstance(given, Mapping):
        try:
            return segment_from_dict(given)
        except ValidationError as error:
            logger.warning("a plugin's segment is left out: {}", error)
    return None
