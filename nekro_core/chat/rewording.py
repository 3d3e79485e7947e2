"""Replaces the words of a message's segments after a hook has changed the message's text."""

from collections.abc import Sequence

from nekro_core.chat.segments import Mention, Reply, Segment, Segments, Text


def reworded(segments: Segments, before: str, now: str) -> Segments:
    """Replace the words of a message, and keep its media.

    Args:
        segments: The segments of the message.
        before: The message as text, before the change.
        now: The same text after the change.

    Returns:
        The segments with the new words. If only one text segment has changed, mentions are kept
        too; otherwise they are lost.
    """
    for place, old in enumerate(segments):
        if not isinstance(old, Text):
            continue
        head, found, tail = before.partition(old.text)
        kept = len(head) + len(tail) <= len(now)
        if found and kept and now.startswith(head) and now.endswith(tail):
            new = now[len(head) : len(now) - len(tail)]
            middle: Segments = (Text(new),) if new else ()
            return (*segments[:place], *middle, *segments[place + 1 :])
    replies = [each for each in segments if isinstance(each, Reply)]
    media = [each for each in segments if not isinstance(each, Text | Mention | Reply)]
    words: Sequence[Segment] = [Text(now)] if now.strip() else []
    return (*replies, *words, *media)
