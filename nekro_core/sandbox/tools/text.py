"""Decides whether bytes from a box are text, and decodes them."""

import codecs
import re
from dataclasses import dataclass

UTF8_MARGIN = 3
"""To see whether a slice cuts a code point, this many bytes before and after the slice are
needed."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""Matches control characters that texts do not have: all except tab, newline, form feed, return and
escape."""


@dataclass(frozen=True, slots=True)
class SliceText:
    """The complete code points of a slice. ``skipped`` is the number of bytes at its beginning that
    are the end of a cut code point. ``left`` is the number of bytes at its end that are the
    beginning of a cut code point."""

    text: str
    skipped: int = 0
    left: int = 0


def slice_text(data: bytes, *, before: bytes = b"", after: bytes = b"") -> SliceText | None:
    """Return a slice of a file as text, or None if the slice is not UTF-8 or has control
    characters.

    ``before`` and ``after`` are up to 3 bytes each, which the file has before and after the slice.
    """
    skipped = _continued(before, data)
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data[skipped:])
        rest = decoder.getstate()[0]
        if rest and not _continued(rest, after):
            return None
    except UnicodeDecodeError:
        return None
    if _CONTROL.search(text) or (data and not text):
        return None
    return SliceText(text, skipped, len(rest))


def _continued(before: bytes, data: bytes) -> int:
    """Return how many bytes at the beginning of ``data`` belong to a code point that begins in
    ``before``."""
    for taken in range(1, UTF8_MARGIN + 1):
        for given in range(1, UTF8_MARGIN + 2 - taken):
            cut = before[-given:] + data[:taken]
            if len(cut) == given + taken and _is_one_character(cut):
                return taken
    return 0


def _is_one_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False
