"""Tells what a question asks for, such as a time or a place, and what a message has that may answer
it. The words for both are in the file ``answer_words.toml``."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

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
    so on. This function reads each message that arrives, so it must be fast: it takes 5 to 10
    µs."""
    text = text[:_READ]
    words, ascii_only, found = (
        set(text.lower().translate(_BETWEEN_WORDS).split()),
        text.isascii(),
        0,
    )
    characters = set(text)
    for bit, trait in enumerate(_traits()):
        if (
            not trait.words.isdisjoint(words)
            or (not ascii_only and trait.east is not None and trait.east.search(text))
            or (
                trait.pattern is not None
                and not trait.characters.isdisjoint(characters)
                and trait.pattern.search(text)
            )
        ):
            found |= 1 << bit
    return found


_BETWEEN_WORDS = {ord(each): " " for each in ".,!?;:()[]\"'/-…~*_\n\t"}


@dataclass(frozen=True, slots=True)
class _Trait:
    """What tells that a message has something: a table in ``message`` of the file."""

    words: frozenset[str]
    east: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    characters: frozenset[str]


@cache
def _traits() -> tuple[_Trait, ...]:
    tables = _content()["message"]
    return tuple(
        _Trait(
            frozenset(table.get("words", "").split()),
            re.compile(table["east"]) if "east" in table else None,
            re.compile(table["pattern"]) if "pattern" in table else None,
            frozenset(table.get("if", "")),
        )
        for table in map(tables.__getitem__, MESSAGE_TRAITS)
    )


def asked_for(question: str) -> frozenset[str]:
    """Return what a question asks for: names of the table ``question`` of the file."""
    return frozenset(
        name for name, pattern in _questions().items() if pattern.search(question[:_READ])
    )


@cache
def _questions() -> Mapping[str, re.Pattern[str]]:
    return {
        name: re.compile(pattern.replace("\n", ""), re.IGNORECASE)
        for name, pattern in _content()["question"].items()
    }


def _content() -> dict[str, Any]:
    text = (files("nekro_core.memory.search") / "answer_words.toml").read_text("utf-8")
    return tomllib.loads(text)
