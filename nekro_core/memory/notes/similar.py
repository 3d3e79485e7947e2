"""Compares notes by their words, to search notes and to find *near doubles*: notes that say nearly
the same."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from nekro_core.memory.words import split_words

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NOT = frozenset(("not", "no", "never", "dont", "doesn", "don", "isn", "without"))
_AUXILIARY = _NOT | {"do", "doe", "did", "t"}
"""Words that only make a sentence negative. `overlap` does not count them."""
_NOT_WIDE = re.compile("不|没|沒|无|無|ない|ません|別|别")
NEAR = 0.62
"""Two notes about the same person are near doubles if at least this share of their words is common.
"likes green tea" and "likes drinking green tea" have 0.75 in common. "likes tea" and "likes dogs"
(0.33), and "room 3 is free" and "room 4 is free" (0.6), are different facts."""
_K1, _B = 1.2, 0.75
"""The usual constants of BM25."""


@lru_cache(1024)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a note in the form in which they are compared, in their order. Results
    are cached, because the same notes are compared again and again."""
    return split_words(text)


def overlap(one: str, other: str) -> float:
    """Return the share of words that two texts have in common, from 0 to 1."""
    first, second = (set(words_of(each)) - _AUXILIARY for each in (one, other))
    both = first | second
    return len(first & second) / len(both) if both else 0.0


def is_same(one: str, other: str) -> bool:
    """Return whether two texts differ only in case, spaces and punctuation."""
    return words_of(one) == words_of(other)


def is_near(one: str, other: str) -> bool:
    """Return whether two texts are near doubles: one says the same as the other, or corrects it."""
    return overlap(one, other) >= NEAR


def contradicts(one: str, other: str) -> bool:
    """Return True if two near doubles contradict each other: their numbers differ, or only one of
    them has a "not". Then the newer note is true since it was said. Otherwise it is true since the
    older one was said."""
    numbers = Counter(_NUMBER.findall(one)) != Counter(_NUMBER.findall(other))
    return numbers or _negated(one) != _negated(other)


def ranked(wanted: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """Return the indices of the texts that have at least one of the wanted words, with their BM25
    scores, the best first."""
    terms = set(words_of(wanted))
    counts = [Counter(words_of(text)) for text in texts]
    lengths = [sum(each.values()) for each in counts]
    average = sum(lengths) / max(len(lengths), 1) or 1.0
    having = {term: sum(term in each for each in counts) for term in terms}
    found = []
    for place, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        score = 0.0
        for term in terms:
            if often := count[term]:
                rare = math.log(1 + (len(texts) - having[term] + 0.5) / (having[term] + 0.5))
                fill = _K1 * (1 - _B + _B * length / average)
                score += rare * often * (_K1 + 1) / (often + fill)
        if score:
            found.append((place, score))
    return sorted(found, key=lambda each: (-each[1], each[0]))


def _negated(text: str) -> bool:
    return bool(_NOT.intersection(words_of(text.replace("'", " ")))) or bool(_NOT_WIDE.search(text))
