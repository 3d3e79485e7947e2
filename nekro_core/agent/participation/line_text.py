"""Finds what the text of a line says about the person to whom the line goes: its words, and cues
such as a question or thanks.

English words are found between spaces. Chinese and Japanese have no spaces. There, pairs of
neighbouring characters count as words, and cues are looked for anywhere in the text.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_READ = 1000
"""Maximum number of characters of a line that are read. People's lines are shorter. The time for
normalizing grows with the square of the number of combining marks in a row."""
_MOST_WORDS = 60
"""Number of words of a line in which cues are looked for, so that a long pasted text costs little
time."""
_STEM = 5
"""Number of letters that two forms of a word have in common, such as "driver" and "drivers"."""
_WORD = re.compile(r"[a-z0-9][a-z0-9_'+-]*")
_EAST = re.compile(r"[\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]+")
_LINK = re.compile(r"https?://\S+|www\.\S+")
_SMILE = re.compile(r"[:;=]-?[)dp(](?![a-z0-9])|[😀-🙏🤣🤔]|\^_?\^")
_DIGIT = re.compile(r"\d")

CUE_NAMES = (
    "agrees", "denies", "thanks", "greets", "everybody", "speaker", "hearer",
    "points", "continues", "reacts", "inquires", "attempts", "apologizes",
)  # fmt: skip
"""The kinds of cues, which are listed in ``cues.toml``."""
_COMMON = frozenset(
    [
        "a",
        "about",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "do",
        "does",
        "for",
        "from",
        "give",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "let",
        "like",
        "me",
        "my",
        "need",
        "not",
        "of",
        "on",
        "one",
        "or",
        "our",
        "out",
        "please",
        "so",
        "some",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "this",
        "to",
        "up",
        "us",
        "use",
        "used",
        "using",
        "want",
        "was",
        "we",
        "what",
        "when",
        "which",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
        "just",
        "get",
        "got",
        "did",
        "don't",
        "i'm",
        "it's",
        "ok",
        "yes",
        "no",
        "yeah",
        "im",
        "u",
        "dont",
        "know",
        "think",
        "he",
        "she",
        "they",
    ]
)
"""Frequent words. Two lines that have such a word in common need not belong together."""

TEXT_FEATURES = (
    "asks", "characters", "words",
    *(f"begins:{name}" for name in CUE_NAMES), *(f"has:{name}" for name in CUE_NAMES),
    "link", "dots", "exclamation", "digit", "slash", "command", "no words", "smile",
)  # fmt: skip
"""The names of `LineText.numbers`, in order."""

_COMMANDS = 5
"""The index of the flag "begins like a command" in ``flags`` of `read_line`."""


@dataclass(frozen=True, slots=True)
class LineText:
    """What one line says.

    Attributes:
        words: The words that are not common to most lines. For Chinese and Japanese texts, these
            are the pairs of characters.
        asks: Whether it asks something.
        begins: The indexes in `CUE_NAMES` of the cues with which it begins.
        has: The indexes in `CUE_NAMES` of all its cues.
        characters: Its length.
        numbers: Its features for the learnt trees, see `TEXT_FEATURES`.
        commands: Whether it begins like a command to a bot, such as ``!help``.
        stems: The beginnings of its longer Latin words, each with a ``~`` behind it: two forms of a
            word have the same beginning.
    """

    words: frozenset[str]
    asks: bool
    begins: frozenset[int]
    has: frozenset[int]
    characters: int
    numbers: tuple[float, ...]
    commands: bool
    stems: frozenset[str]


def read_line(text: str) -> LineText:
    """Read one line of a person or of the bot. Only its beginning is read."""
    plain = unicodedata.normalize("NFKC", text[:_READ]).casefold()
    bare = _LINK.sub(" ", plain)
    known = _cues()
    words = _WORD.findall(bare)[:_MOST_WORDS]
    east = "" if bare.isascii() else "".join(_EAST.findall(bare))
    begins: set[int] = set()
    has: set[int] = set()
    for at, word in enumerate(words):
        cues = known.by_word.get(word)
        if cues:
            has |= cues
            if at == 0:
                begins |= cues
    if east:
        for each, cue in known.by_characters:
            at = east.find(each)
            if at >= 0:
                has.add(cue)
                if at == 0:
                    begins.add(cue)
    end = bare.rstrip(" 。.!！~～…")
    asks = "?" in bare or (bool(east) and end[-1:] in known.question_ends)
    pairs = (east[at : at + 2] for at in range(len(east) - 1))
    flags = (
        len(plain) != len(bare) or bare != plain,
        ".." in bare or "…" in plain,
        "!" in bare,
        _DIGIT.search(bare) is not None,
        "/" in bare,
        bare.startswith(("!", "/")),
        not words and not east,
        _SMILE.search(bare) is not None,
    )
    return LineText(
        words=frozenset(
            (*(each for each in words if each not in _COMMON and len(each) > 1), *pairs)
        ),
        asks=asks,
        begins=frozenset(begins) or _NO_CUES,
        has=frozenset(has) or _NO_CUES,
        characters=len(text),
        numbers=(
            _number(asks),
            float(min(len(text), _READ)),
            len(words) + len(east) / 2,
            *_flags_of(begins),
            *_flags_of(has),
            *map(_number, flags),
        ),
        commands=flags[_COMMANDS],
        stems=frozenset(
            f"{each[:_STEM]}~" for each in words if len(each) >= _STEM and each not in _COMMON
        ),
    )


_NO_CUES = frozenset[int]()
"""Most lines have no cues, and each empty set that is made takes 216 bytes."""
_NO_FLAGS = (0.0,) * len(CUE_NAMES)


def _flags_of(cues: AbstractSet[int]) -> tuple[float, ...]:
    """Return 1 for each kind of cue that is among ``cues``, and 0 for the others."""
    if not cues:
        return _NO_FLAGS
    return tuple(_number(cue in cues) for cue in range(len(CUE_NAMES)))


def _number(flag: bool) -> float:
    # `float(flag)` would make a new object of 24 bytes for each flag of each line.
    return 1.0 if flag else 0.0


@dataclass(frozen=True, slots=True)
class _Cues:
    by_word: Mapping[str, frozenset[int]]
    by_characters: tuple[tuple[str, int], ...]
    question_ends: frozenset[str]


@cache
def _cues() -> _Cues:
    file = tomllib.loads((files(__package__) / "cues.toml").read_text("utf-8"))
    by_word: dict[str, frozenset[int]] = {}
    for at, name in enumerate(CUE_NAMES):
        for word in file[name]["latin"].split():
            by_word[word] = by_word.get(word, frozenset()) | {at}
    by_characters = (
        (each, at) for at, name in enumerate(CUE_NAMES) for each in file[name]["east"].split()
    )
    return _Cues(by_word, tuple(by_characters), frozenset(file["question_ends"]))
