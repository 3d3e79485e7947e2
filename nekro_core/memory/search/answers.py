"""Tells what a question asks for, such as a time or a place, and what a message has that may answer
it. The words for both are in the file ``answer_words.toml``."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

MESSAGE_TRAITS = (
    "question",
    "money",
    "time",
    "digit",
    "number_word",
    "reason",
    "name",
    "place",
)
"""What a message can have, in the order of the bits of `traits_of`. The index stores the bits, so
the order must not change. An index of an earlier version has only the first bit, and only for
messages all of whose sentences are questions."""
_READ = 500
"""Number of characters of a text that are read. A longer message has something of everything."""


def traits_of(text: str) -> int:
    """Return what a message has: the bit 1 for the first of `MESSAGE_TRAITS`, 2 for the second, and
    so on."""
    text = text[:_READ]
    patterns = _patterns("message")
    return sum(1 << bit for bit, name in enumerate(MESSAGE_TRAITS) if patterns[name].search(text))


def asked_for(question: str) -> frozenset[str]:
    """Return what a question asks for: names of the table ``question`` of the file."""
    return frozenset(
        name for name, pattern in _patterns("question").items() if pattern.search(question[:_READ])
    )


@cache
def _patterns(table: str) -> Mapping[str, re.Pattern[str]]:
    text = (files("nekro_core.memory.search") / "answer_words.toml").read_text("utf-8")
    return {
        name: re.compile(pattern.replace("\n", ""), re.IGNORECASE)
        for name, pattern in tomllib.loads(text)[table].items()
    }
