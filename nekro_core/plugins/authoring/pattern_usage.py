"""Converts the regular expression of a command into a usage text: ``^/sign\\s+(?P<name>\\S+)$``
becomes ``/sign <name>``."""

import re
from collections.abc import Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

_LONGEST = 120
_ALTERNATIVES = 6


def usage_of_pattern(pattern: str) -> str:
    """Return what people type to call a command with this pattern. Return the pattern itself if it
    cannot be parsed, or if the text that it matches has no fixed beginning."""
    try:
        parsed = _parser.parse(pattern)
        names = {number: name for name, number in parsed.state.groupdict.items()}
        text = " ".join(_text(parsed, names).split())
    except (re.error, RecursionError, OverflowError):
        return pattern[:_LONGEST]
    return text[:_LONGEST] if text and text.strip("…[]<>| ") else pattern[:_LONGEST]


def _text(parts: Iterable[Any], names: dict[int, str]) -> str:
    return "".join(_part(kind, value, names) for kind, value in parts)


def _part(kind: Any, value: Any, names: dict[int, str]) -> str:
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "IN":
            return _one_of(value)
        case "SUBPATTERN":
            number, _, _, inner = value
            return f"<{names[number]}>" if number in names else _text(inner, names)
        case "ATOMIC_GROUP":
            return _text(value, names)
        case "BRANCH":
            options = dict.fromkeys(_text(each, names).strip() for each in value[1])
            return "|".join([each for each in options if each][:_ALTERNATIVES])
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            return _repeated(least, most, _text(inner, names))
        case "ANY" | "NOT_LITERAL" | "CATEGORY" | "GROUPREF":
            return "…"
    return ""  # the ends of the text and other assertions: people type nothing for them


def _one_of(parts: Iterable[Any]) -> str:
    """Return one character that a character class matches: the first that it names."""
    for kind, value in parts:
        if kind is _constants.LITERAL:
            return chr(value)
        if kind is _constants.CATEGORY and value is _constants.CATEGORY_SPACE:
            return " "
    return "…"


def _repeated(least: int, most: Any, text: str) -> str:
    if not text.strip():
        return " "
    if text.strip("…") == "":
        return "…" if least else "[…]"
    if least == 0:
        before, after = " " * text[0].isspace(), " " * text[-1].isspace()
        return f"{before}[{text.strip()}]{after}"
    return text if most == 1 else f"{text}…"
