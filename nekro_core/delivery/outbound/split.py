"""Splits a message into pieces for one platform call each. A text that needs too many messages
becomes its beginning and a file. Does no I/O."""

import base64
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from nekro_core.chat import (
    File,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Segments,
    Text,
    Video,
    Voice,
    plain_text,
)
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.markdown.fences import open_fence

_PLACES = ("\n\n", "\n", "。", "！", "？", ". ", "! ", "? ", "；", "; ", "，", ", ", "、", " ")
"""Where a text is cut, best first: after a paragraph, line, sentence, clause or word."""

_FENCE_ROOM = 12
"""Characters of a piece that stay free in Markdown, so that a block of code can be closed."""

_LEAST = 0.5
"""A cut never comes before this fraction of the maximum length. A poor place in the second half is
better than a good place in the first half, because many small pieces are worse than one poor cut.
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """The segments of one platform call. ``problem`` says why they cannot be sent; it is empty if
    they can be sent."""

    segments: Segments
    problem: str = ""


def split(segments: Iterable[Segment], capabilities: Capabilities) -> tuple[Piece, ...]:
    """Split segments into pieces, in order. Segments without visible content are left out.

    A reply mark stays with the first piece that can carry it. If the platform has no mentions,
    mentions become text. If the platform has no reply marks, reply marks are left out. Any other
    unsupported segment becomes a piece with a problem.
    """
    return _Splitter(capabilities).split(segments)


@dataclass(slots=True)
class _Splitter:
    capabilities: Capabilities
    pieces: list[Piece] = field(default_factory=list)
    open: list[Segment] = field(default_factory=list)

    def split(self, segments: Iterable[Segment]) -> tuple[Piece, ...]:
        for segment in segments:
            self._add(segment)
        self._flush()
        return tuple(self.pieces)

    def _add(self, segment: Segment) -> None:
        can = self.capabilities
        if isinstance(segment, Image | Voice | Video | File) and segment.media.problem:
            name = segment.media.name or type(segment).__name__.lower()
            self._refuse(segment, f"{name}: {segment.media.problem}")
        elif type(segment) in can.alone:
            self._flush()
            self.pieces.append(Piece((segment,)))
        elif isinstance(segment, Text) and Text in can.inline:
            self._add_text(segment.text, markdown=segment.markdown)
        elif type(segment) in can.inline:
            self._add_inline(segment)
        elif isinstance(segment, Mention) and Text in can.inline:
            self._add_text(plain_text((segment,)))
        elif not isinstance(segment, Reply):
            kind = type(segment).__name__.lower()
            self._refuse(segment, f"this platform cannot send a {kind}")

    def _refuse(self, segment: Segment, problem: str) -> None:
        self._flush()
        self.pieces.append(Piece((segment,), problem))

    def _add_inline(self, segment: Segment) -> None:
        can = self.capabilities
        if isinstance(segment, Image):
            full = self._images() >= can.images_per_call or self._used() > self._bound(True)
        else:
            full = can.measure(plain_text((segment,))) > self._room()
        if full:
            self._flush()
        self.open.append(segment)

    def _add_text(self, text: str, *, markdown: bool = False) -> None:
        can = self.capabilities
        while can.measure(text) > self._room():
            room = self._room() - (_FENCE_ROOM if markdown else 0)
            if room < can.text_length * _LEAST and _visible(self.open):
                self._flush()
                continue
            place = _cut(text, _prefix(text, max(room, 1), can.measure))
            head, text = text[:place], text[place:]
            fence = open_fence(head) if markdown else ""
            if fence:
                # The cut is inside a block of code. Close the block in this message, and open it
                # again in the next one.
                mark = fence[: len(fence) - len(fence.lstrip("`~"))]
                head, text = f"{head.rstrip()}\n{mark}", f"{fence}\n{text.lstrip(chr(10))}"
            else:
                text = text.lstrip("\n ")
            self.open.append(Text(head.rstrip(), markdown))
            self._flush()
        if text:
            self.open.append(Text(text, markdown))

    def _room(self) -> int:
        return self._bound(self._images() > 0) - self._used()

    def _bound(self, pictured: bool) -> int:
        can = self.capabilities
        caption = can.text_length if can.caption_length is None else can.caption_length
        return min(caption, can.text_length) if pictured else can.text_length

    def _used(self) -> int:
        # Do not count pictures: the placeholder that `plain_text` writes for a picture is not sent.
        words = [s for s in self.open if isinstance(s, Text | Mention)]
        return self.capabilities.measure(plain_text(words))

    def _images(self) -> int:
        return sum(isinstance(segment, Image) for segment in self.open)

    def _flush(self) -> None:
        if _visible(self.open):
            self.pieces.append(Piece(tuple(self.open)))
            self.open = []
        else:
            # A reply mark alone shows nothing, so it is kept for the next piece with visible
            # content.
            self.open = [segment for segment in self.open if isinstance(segment, Reply)]


def _visible(segments: Iterable[Segment]) -> bool:
    return any(
        bool(segment.text.strip()) if isinstance(segment, Text) else not isinstance(segment, Reply)
        for segment in segments
    )


def _prefix(text: str, room: int, measure: Callable[[str], int]) -> int:
    """Return the length in Python characters, at least 1, of the longest beginning of a text that
    fits into ``room``. ``room`` is in the units in which the platform counts (``measure``).
    ``measure`` must never return a smaller number for a longer text."""
    if measure is len:
        return room
    return (
        max(bisect_right(range(min(room, len(text)) + 1), room, key=lambda n: measure(text[:n])), 2)
        - 1
    )


def _cut(text: str, room: int) -> int:
    """Return the length of a piece of at most ``room`` characters that ends at a good place; at
    least 1."""
    for mark in _PLACES:
        place = text.rfind(mark, 0, room)
        if place >= room * _LEAST:
            return place + len(mark)
    for place in range(room, max(room - 32, 0), -1):
        if _between_characters(text, place):
            return place
    return room


def _between_characters(text: str, place: int) -> bool:
    """Return whether a cut at this place leaves every visible character whole. Handles the usual
    cases: accents, skin tones, emoji joined by U+200D."""
    if place >= len(text):
        return True
    after, before = text[place], text[place - 1]
    joins = "\u200d\ufe0e\ufe0f\u20e3"
    return not (
        after in joins
        or before == "\u200d"
        or unicodedata.category(after).startswith("M")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


FILE_NAME = "message.txt"
_MORE = " …"


def long_text_as_file(segments: Iterable[Segment], can: Capabilities, most: int) -> Segments:
    """Replace a text of more than ``most`` messages with its first message and a text file of the
    whole text. Changes nothing if the platform carries no files. A mention that is only in the file
    becomes the person's name and does not notify the person.

    The file's bytes are in its ``data:`` URL; `keep_media` stores them.
    """
    if File not in can.inline | can.alone:
        return tuple(segments)
    found: list[Segment] = []
    for spoken, grouped in groupby(segments, lambda each: isinstance(each, Text | Mention | Reply)):
        run = tuple(grouped)
        found += _shortened(run, can, most) if spoken else run
    return tuple(found)


def _shortened(words: Segments, can: Capabilities, most: int) -> Iterator[Segment]:
    text = plain_text(words)
    # The cheap check comes first: most texts fit into one message.
    if can.measure(text) <= can.text_length or len(split(words, can)) <= most:
        yield from words
        return
    data = text.encode()
    if can.file_bytes is not None and len(data) > can.file_bytes:
        yield from words
        return
    room = max(can.text_length - can.measure(_MORE), 1)
    beginning = split(words, replace(can, text_length=room))[0]
    yield from beginning.segments
    yield Text(_MORE)
    url = f"data:text/plain;base64,{base64.b64encode(data).decode()}"
    yield File(Media(url=url, name=FILE_NAME, mime="text/plain", size=len(data)))
