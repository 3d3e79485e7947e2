"""Applies a plugin's changes of a message that is about to be sent."""

from collections.abc import Mapping, Sequence
from typing import Any

from loguru import logger

from nekro_core.chat import Segment, Segments, Text
from nekro_core.compat.maibot.formats.segments import InvalidSegment, segments_from
from nekro_core.plugins.authoring.context import AgentCtx


async def changed_segments(
    ctx: AgentCtx, segments: Segments, before: Sequence[Mapping[str, Any]], now: Any
) -> Segments:
    """Apply a plugin's changes of the dicts of a message.

    A dict does not say all about a medium. So for an unchanged dict, the original segment is sent,
    with its medium. Only changed dicts are converted to segments.

    Args:
        ctx: The context of the chat.
        segments: The segments of the message.
        before: The dicts that the plugin got, one for each segment.
        now: The dicts that the plugin returned, or a text. None means no change.

    Returns:
        The segments to send. A dict that cannot be converted is left out, and a warning is logged.
    """
    if now is None or now == before:
        return segments
    if isinstance(now, str):
        return (Text(now),) if now.strip() else ()
    if not isinstance(now, list):
        logger.warning("a plugin's raw_message is {}: expected a list", type(now).__name__)
        return segments
    left = list(zip(before, segments, strict=True))
    made: list[Segment] = []
    for each in now:
        place = next((i for i, (shown, _) in enumerate(left) if _is_same(shown, each)), None)
        if place is not None:
            made.append(left.pop(place)[1])
            continue
        try:
            made += await segments_from(ctx, [each])
        except InvalidSegment as error:
            logger.warning("a segment of a plugin is not sent to {}: {}", ctx.chat, error)
    return tuple(each for each in made if not (isinstance(each, Text) and not each.text))


def with_text(segments: Segments, before: str, now: Any) -> Segments:
    """Replace the text of a message if a plugin has changed it. The other segments come after the
    text."""
    if not isinstance(now, str) or now == before:
        return segments
    others = tuple(each for each in segments if not isinstance(each, Text))
    return (Text(now), *others) if now.strip() else others


def _is_same(shown: Mapping[str, Any], given: Any) -> bool:
    """Return True if a dict is the unchanged dict of a segment, or names the same medium."""
    if shown == given:
        return True
    if not isinstance(given, Mapping):
        return False
    if given.get("binary_data_base64") not in (None, "", shown.get("binary_data_base64")):
        return False
    number = shown.get("hash")
    return bool(number) and given.get("hash") == number
