"""Splits English, Chinese, Japanese and Korean texts into words that a search can compare."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_EAST = re.compile(r"[\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]+")
_ACCENTED = re.compile(r"[\u00c0-\u024f\u1e00-\u1eff]")
_KANA_ONLY = re.compile(r"[\u3041-\u309f]+\Z")
_VOWEL = re.compile(r"[aeiouy]")
_SAYING_NOTHING = """
a about an and any are as at be been but by can could do does for from give had has have how i if in
into is it its let like me my need not of on one or our out please so some that the their them then
there these this to up us use used using want was we what when which who will with would you your
"""
_STOP = frozenset(_SAYING_NOTHING.split())
_WHOLE = frozenset(("always", "bus", "gas", "news", "plus", "series", "species", "towards"))
"""Words that look as if they had an ending, but do not have one."""
_ENDINGS = (
    ("ization", "ize"), ("ational", "ate"), ("isation", "ize"), ("fulness", "ful"),
    ("iveness", "ive"), ("ations", "ate"), ("ation", "ate"), ("ators", "ate"), ("ator", "ate"),
    ("ments", ""), ("ment", ""), ("ness", ""), ("ions", ""), ("ion", ""), ("ings", ""),
    ("ening", ""), ("ened", ""), ("ing", ""), ("en", ""), ("able", ""), ("ies", "y"), ("ied", "y"),
    ("ed", ""), ("ers", ""), ("er", ""), ("ors", ""),
    ("or", ""), ("ly", ""), ("es", ""), ("s", ""),
)  # fmt: skip


def folded(text: str) -> str:
    """Normalize a text: unify compatible characters, remove accents, split names into words,
    convert to lower case, and replace traditional and Japanese characters by simplified ones."""
    return unified(_HUMP.sub(" ", unicodedata.normalize("NFKC", text)))


def unified(text: str) -> str:
    """Normalize a text as `folded` does, but keep names such as ``YouTube`` whole."""
    if text.isascii():
        return text.lower()
    plain = _ACCENTED.sub(_bare, unicodedata.normalize("NFKC", text))
    return plain.lower().translate(_simplified())


def all_words(plain: str) -> list[str]:
    """Get the stems of the English words in a folded text, in order. Stop words such as "the" are
    included unchanged, since phrases may need them."""
    return [word if word in _STOP else stem(word) for word in _WORD.findall(plain)]


def content_words(plain: str) -> list[str]:
    """Get the English words of a folded text without stop words, not stemmed."""
    return [word for word in _WORD.findall(plain) if word not in _STOP]


def is_stop_word(word: str) -> bool:
    """Return True if a word is so common that it says nothing about a request."""
    return word in _STOP


def cjk_runs(plain: str) -> list[str]:
    """Find the sequences of Chinese, Japanese or Korean characters in a folded text."""
    return _EAST.findall(plain)


def character_bigrams(run: str) -> Iterator[str]:
    """Yield each pair of neighbouring characters. Pairs are used because these languages have no
    spaces between words. Pairs of hiragana are left out, since most are endings."""
    for start in range(len(run) - 1):
        pair = run[start : start + 2]
        if not _KANA_ONLY.match(pair):
            yield pair


def character_trigrams(word: str) -> list[str]:
    """Get each group of three letters of an English word with at least four letters, marked with
    "#". Empty for other words."""
    if not word.isascii():
        return []
    return ["#" + word[start : start + 3] for start in range(len(word) - 2) if len(word) > 3]


@cache
def stem(word: str) -> str:
    """Remove a word's ending, so that ``translate``, ``translated`` and ``translation`` are equal.

    The result may be rough, because both texts of a comparison are stemmed in the same way, and
    people never see a stem.
    """
    bare = word.partition("'")[0]
    if bare in _WHOLE:
        return bare
    for ending, instead in _ENDINGS:
        head = bare.removesuffix(ending)
        if head != bare and len(head) >= 3 and _VOWEL.search(head) and not bare.endswith("ss"):
            bare = head + instead
            break
    if len(bare) > 3 and bare[-1] == bare[-2] and bare[-1] not in "aeiouls":
        bare = bare[:-1]
    short = bare.removesuffix("e") if len(bare) > 3 else bare
    # A stem must not become a stop word: "note" must not become "not".
    return bare if is_stop_word(short) else short


def _bare(accented: re.Match[str]) -> str:
    return unicodedata.normalize("NFD", accented[0])[0]


@cache
def _simplified() -> dict[int, str]:
    table: dict[int, str] = {}
    text = (files("nekro_core.tools.discovery") / "variants.txt").read_text("utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            for group in line.split():
                table |= {ord(other): group[0] for other in group[1:] if other != group[0]}
    return table
