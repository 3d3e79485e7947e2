"""A text of too many messages: its beginning, and the whole of it as a file. Pure."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from nekro_core.chat import File, Media, Mention, Reply, Segment, Segments, Text, plain_text
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.outbound.split import split

FILE_NAME = "message.txt"
_MORE = " …"


def long_text_as_file(segments: Iterable[Segment], can: Capabilities, most: int) -> Segments:
    """The segments, with words that need more than ``most`` messages as their first message and a
    text file that has all of them, where the platform carries files. Whoever is mentioned in the
    file alone is named and not called.

    The file's bytes stand in its URL, for `keep_media` to write down.
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
    # Most are one message, which is quickly told.
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
