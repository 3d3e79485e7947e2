"""Writes Markdown without its marks for a platform that shows no markup."""

from nekro_core.chat import Segments, Text, plain_text
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.markdown.styled import plain_from_markdown


def readable_segments(segments: Segments, can: Capabilities, *, enabled: bool = True) -> Segments:
    """Return the segments of one platform call as the platform gets them.

    Args:
        segments: The segments, already split for the platform.
        can: What one call can carry.
        enabled: Whether Markdown is read at all. If not, each text is sent as it was written.

    Returns:
        The same object if nothing changes. If the platform shows no markup, each text with
        `Text.markdown` is written without marks, unless it would then be too long for one call.
    """
    if not any(isinstance(each, Text) and each.markdown for each in segments):
        return segments
    if enabled and can.markdown:
        return segments
    written = tuple(
        _written(each, enabled) if isinstance(each, Text) else each for each in segments
    )
    if can.measure(plain_text(written)) > can.text_length:
        # A table with aligned columns can be longer than the Markdown of the table.
        return tuple(Text(each.text) if isinstance(each, Text) else each for each in segments)
    return written


def _written(segment: Text, enabled: bool) -> Text:
    if not (segment.markdown and enabled):
        return Text(segment.text)
    return Text(plain_from_markdown(segment.text))
