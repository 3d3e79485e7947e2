"""Replaces characters that a browser or a terminal would obey, and not show, with visible
characters."""

import re

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible_text(text: str) -> str:
    """Return a text in which control characters, such as those of terminal codes, and characters
    that change the direction of writing are written out: ``␛`` for escape, ``<U+202E>``. Tabs and
    line feeds stay."""
    return _HIDDEN.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"<U+{number:04X}>"
