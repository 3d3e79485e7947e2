"""Finds the block of code that is still open at the place where a text is cut."""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n`]*)$")


def open_fence(text: str) -> str:
    """Find the block of code in which a text ends.

    Args:
        text: The beginning of a Markdown text.

    Returns:
        The line that opened the block, such as three backticks and ``python``; empty if the text
        ends outside of a block.
    """
    opened = ""
    for line in text.split("\n"):
        match = _FENCE.match(line.rstrip("\r"))
        if match is None:
            continue
        mark, info = match[1], match[2].strip()
        if not opened:
            opened = mark + info
        elif opened.startswith(mark[0] * 3) and not info and len(mark) >= len(_mark_of(opened)):
            opened = ""
    return opened


def _mark_of(opening: str) -> str:
    return opening[: len(opening) - len(opening.lstrip(opening[0]))]
