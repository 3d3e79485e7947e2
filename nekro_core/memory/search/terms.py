"""Splits a text into the terms that the search of messages compares.

A term is one of these:

- the stem of a word: ``went`` and ``going`` give ``go``, ``three`` gives ``3``
- a pair of neighbouring Chinese or Japanese characters, except pairs of hiragana: most are endings
- a single Chinese character, unless nearly every text has it

Characters are normalized first: upper and lower case, accents, full-width letters, and traditional,
simplified and Japanese forms of a character give the same term.
"""

import re
from functools import cache
from importlib.resources import files

from Stemmer import Stemmer

from nekro_core.tools.discovery.words import unified

LONGEST_TEXT = 20_000
"""Maximum number of characters of a message that are indexed. A longer message is usually a pasted
file, and its beginning shows its subject."""
_LONGEST_WORD = 40
"""Maximum number of characters of a term. Longer words are keys and addresses; they are cut."""
_KNOWN = 50_000
"""Maximum number of words whose terms are cached, about 6 MB. A chat of 100,000 messages has 30,000
different words."""

_EAST = r"\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
_TOKEN = re.compile(rf"([{_EAST}]+)|([^\W_{_EAST}]+(?:['\u2019][a-z]+)?)")
_HIRAGANA = re.compile(r"[\u3041-\u309f]+")
_STOP = """
a about after again all also am an and any are as at be been before being but by can can't cannot
could couldn't did didn't do does doesn't doing don't down for from had hadn't has hasn't have
haven't having he he'd he'll he's her here hers herself him himself his how i i'd i'll i'm i've if
in into is isn't it it's its itself just let's me more most my myself no nor not of off on once
only or other our ours ourselves out over own same she she'd she'll she's should shouldn't so some
such than that that's the their theirs them themselves then there there's these they they'd
they'll they're they've this those through to too under until up very was wasn't we we'd we'll
we're we've were weren't what what's when where which while who who's whom why will with won't
would wouldn't you you'd you'll you're you've your yours yourself im ive dont didnt thats oh ok
okay yeah yes hey hi hello lol haha hahaha wow please really well
"""
STOP_WORDS = frozenset(_STOP.split())
"""English words that are not indexed: nearly every message has one of them, and questions are not
about them."""

_NUMBER_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty
"""
_NUMBERS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split()) if number != 1}


def terms_of(text: str) -> list[str]:
    """Return the terms of a text, in order. A term that occurs twice is returned twice."""
    terms: list[str] = []
    for run, word in _TOKEN.findall(unified(text[:LONGEST_TEXT])):
        if run:
            terms += _of_run(run)
            continue
        term = _known.get(word)
        if term is None:
            term = _learnt(word)
        if term:
            terms.append(term)
    return terms


def _of_run(run: str) -> list[str]:
    """Return the terms of a sequence of Chinese, Japanese or Korean characters."""
    terms = [
        run[at : at + 2] for at in range(len(run) - 1) if not _HIRAGANA.fullmatch(run, at, at + 2)
    ]
    common = _common_characters()
    terms += [each for each in run if each >= "\u3400" and each not in common]
    return terms


_known: dict[str, str] = {}


def _learnt(word: str) -> str:
    """Return the term of a word, or an empty text for a stop word, and cache it."""
    if len(_known) >= _KNOWN:
        _known.clear()
    term = _known[word] = _made(word[:_LONGEST_WORD].replace("\u2019", "'"))
    return term


def _made(word: str) -> str:
    if word in STOP_WORDS:
        return ""
    bare = word.partition("'")[0]
    if bare in STOP_WORDS:
        return ""
    bare = _irregular().get(bare, bare)
    if number := _NUMBERS.get(bare):
        return number
    if not (bare.isascii() and bare.isalpha()):
        return bare
    return str(_stemmer().stemWord(bare))


@cache
def _stemmer() -> Stemmer:
    # The 0 switches off the stemmer's own cache, because `_known` is a cache already.
    return Stemmer("english", 0)


@cache
def _irregular() -> dict[str, str]:
    """Return the base of each irregular form."""
    text = (files("nekro_core.memory.search") / "irregular.txt").read_text("utf-8")
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {form: base for base, *forms in lines for form in forms}


@cache
def _common_characters() -> frozenset[str]:
    text = (files("nekro_core.memory.search") / "common_characters.txt").read_text("utf-8")
    return frozenset("".join(line for line in text.splitlines() if not line.startswith("#")))
