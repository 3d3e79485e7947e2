"""Fits bundles of messages to the platform's limits, or quotes them as text. Does no I/O.

Messages in a bundle notify no person: a mention becomes the person's name, and a reply quotes the
message that it answers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from nekro_core.chat import (
    File,
    Forward,
    ForwardedMessage,
    Image,
    Reply,
    Segment,
    Segments,
    Text,
    Video,
    Voice,
    every_segment,
    plain_text,
)
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.outbound.split import split

_DEPTH = 8
"""Maximum depth of nested bundles that are quoted. A deeper bundle becomes one line, which says how
many messages it has."""


def unbundled(segments: Iterable[Segment], can: Capabilities) -> Segments:
    """Fit each bundle to the platform's limits. Content that a bundle cannot hold follows the
    bundle. If the platform has no bundles, the text of each bundle is quoted line by line and its
    media stay in place. A second call with the result changes nothing."""
    found: list[Segment] = []
    quoted = False
    for segment in segments:
        quoted = isinstance(segment, Forward) and Forward not in can.alone
        if not isinstance(segment, Forward):
            found.append(segment)
        elif not quoted:
            found += _within_bounds(segment, can)
        else:
            if found and isinstance(last := found[-1], Text) and not last.text.endswith("\n"):
                found[-1] = Text(f"{last.text}\n")
            found += _joined(_quoted(segment))
    if quoted and found and isinstance(last := found[-1], Text):
        found[-1] = Text(last.text.rstrip("\n"))
    return tuple(found)


def _within_bounds(bundle: Forward, can: Capabilities) -> Iterator[Segment]:
    """Yield bundles whose number of messages and sizes are within the limits, then the media that
    are not pictures."""
    node = replace(can, inline=frozenset({Text, Image}), alone=frozenset(), caption_length=None)
    messages: list[ForwardedMessage] = []
    behind: list[Segment] = []
    for message in bundle.messages:
        said: list[Segment] = []
        for segment in _spoken(message.segments, 0):
            if isinstance(segment, Text) or (
                isinstance(segment, Image) and not segment.media.problem
            ):
                said.append(segment)
            else:
                said.append(Text(f"{plain_text((segment,))}\n"))
                behind.append(segment)
        messages += [
            msgspec.structs.replace(message, segments=_trimmed(piece.segments))
            for piece in split(_joined(said), node)
        ]
    yield from map(Forward, _sliced(messages, can))
    yield from behind


def _sliced(
    messages: list[ForwardedMessage], can: Capabilities
) -> Iterator[tuple[ForwardedMessage, ...]]:
    taken: list[ForwardedMessage] = []
    used = 0
    for message in messages:
        size = media_bytes(message.segments)
        full = len(taken) >= can.bundle.messages or used + size > can.bundle.media_bytes
        if taken and full:
            yield tuple(taken)
            taken, used = [], 0
        taken.append(message)
        used += size
    if taken:
        yield tuple(taken)


def media_bytes(segments: Iterable[Segment]) -> int:
    """Return the total size of all media in bytes, including media in bundles."""
    return sum(
        each.media.size
        for each in every_segment(segments)
        if isinstance(each, Image | Voice | Video | File)
    )


def _quoted(bundle: Forward, depth: int = 1) -> Iterator[Segment]:
    """Yield every message under its sender's name, with ``>`` before each line."""
    for message in bundle.messages:
        said = list(_spoken(message.segments, depth))
        name = message.sender_name or message.sender_id
        if said and name:
            yield Text(f"{name}:\n")
        words = ""
        for segment in said:
            if isinstance(segment, Text):
                words += segment.text
                continue
            yield from _lines(words)
            words = ""
            yield segment
        yield from _lines(words)


def _lines(words: str) -> Iterator[Text]:
    if words.strip():
        lines = words.strip("\n").split("\n")
        yield Text("".join(f"> {line}\n" for line in lines))


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """Return the segments with adjacent texts joined."""
    found: list[Segment] = []
    for segment in segments:
        last = found[-1] if found else None
        if isinstance(segment, Text) and isinstance(last, Text):
            found[-1] = Text(last.text + segment.text)
        else:
            found.append(segment)
    return found


def _trimmed(segments: Segments) -> Segments:
    """Return the segments without empty lines at the beginning and the end."""
    found = [*segments]
    if isinstance(first := found[0], Text):
        found[0] = Text(first.text.lstrip("\n"))
    if isinstance(last := found[-1], Text):
        found[-1] = Text(last.text.rstrip("\n"))
    return tuple(each for each in found if each != Text(""))


def _spoken(segments: Segments, depth: int) -> Iterator[Segment]:
    """Yield a message's text and media. Bundles in the message are quoted."""
    for segment in segments:
        match segment:
            case Text() | Image() | Voice() | Video() | File():
                yield segment
            case Reply(text=text):
                yield Text("\n")
                yield from _lines(text)
            case Forward() if depth < _DEPTH:
                yield Text("\n")
                yield from _quoted(segment, depth + 1)
            case _:
                yield Text(plain_text((segment,)))
