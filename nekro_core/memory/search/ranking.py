"""Ranks messages by their words and by the words of the messages around them.

For each term of the question, a message gets the term's weight times a count. The weight is the idf
of BM25: it is larger for a term that few messages have. For the count, an occurrence of the term in
the message counts 1. In addition, each occurrence in the message or in the one before or after it
counts 0.3, and each occurrence in the message or in the four before or after it counts 0.2. The
neighbours count because an answer often does not repeat the words of the question that it answers.
As in BM25, each further occurrence counts less. The score of a message is the sum over all terms. A
name in the question also raises the score of the messages that this person wrote.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009). The
numbers were chosen on conversations of our own (decision 0039).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from nekro_core.memory.search.word_hits import Floats, Positions, TermHits
from nekro_core.store.search_pages import counts, has_several, lengths
from nekro_core.system.arrays import NDArray, np

Allowed: TypeAlias = "NDArray[np.bool_]"

_OWN = 1.0
_BESIDE = 0.3
_AROUND = 0.2
"""An occurrence of a term counts `_OWN` if it is in the message itself, plus `_BESIDE` if it is at
most `_NEAR` messages away, plus `_AROUND` if it is at most `_FAR` messages away."""
_NEAR = 1
_FAR = 4
_SATURATION = 1.0
"""The constant k1 of BM25: the smaller it is, the less a repetition of a term counts."""
_LENGTH = 0.2
"""The constant b of BM25: how much the score of a long message is reduced. It is small, because
most messages are short."""
_NAME = 1.0
"""Weight of a name in the question, relative to another term of the same rarity."""
_CHARACTER = 0.6
"""Weight of a single Chinese character, relative to a pair of characters."""
_RELATED = 0.4
"""Weight of a term that is related to one of the question, relative to a term of the question."""
_SEEDS = 100
_SEEDS_IN_MEDIUM = 300
"""In chats with more than `_ALL` messages, only the messages whose own words have the best scores
are ranked, together with their neighbours. `_SEEDS` is the number of these best messages in chats
with more than `MEDIUM` messages, `_SEEDS_IN_MEDIUM` in smaller chats."""
MEDIUM = 50_000
"""In chats with at most this many messages, a search has the time to rank and compare more messages
than in larger chats."""
_MOST_SEEDING = 20_000
"""The messages whose words have the best scores are looked for only among messages that have one of
the rarest terms of the question. The rarest terms are taken one after another, as long as they have
together at most this many hits; the rarest one is always taken. In a large chat, a message that has
only common terms is not one of the best."""
_ALL = 5000
"""In a chat with at most this many messages, all messages are ranked."""
_MOST_POSTINGS = 150_000
"""Maximum number of postings that are read, those of the rarest terms first. A posting says that
one message has one term. 50,000 postings take a millisecond, and in a chat of a million messages
the common terms help little."""


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """One term of a question, or several terms that count as one.

    Attributes:
        hits: The messages that have the term.
        weight: The weight of the term in the score.
        of_author: Whether the term is in the author's name instead of the words.
        related: Whether the question does not contain this term, but a term of the same subject.
    """

    hits: TermHits
    weight: float
    of_author: bool = False
    related: bool = False


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ranked messages.

    Attributes:
        positions: The positions of the messages.
        scores: Their scores.
    """

    positions: Positions
    scores: Floats


class Scratch:
    """An array for the scores of all messages of a chat, which several searches use one after
    another. Allocating 4 MB of zeros for each search took as long as the rest of the ranking."""

    def __init__(self) -> None:
        self._scores: Floats | None = None

    def zeros(self, size: int) -> Floats:
        """Return an array of at least ``size`` zeros. After use, the caller must set the numbers
        that it has changed to zero again."""
        if self._scores is None or len(self._scores) < size:
            self._scores = np.zeros(size + size // 8, np.float32)
        return self._scores


def weighted(
    hits: TermHits, total: int, term: str, *, of_author: bool = False, related: bool = False
) -> WeightedTerm:
    """Weight a term by its rarity among ``total`` messages."""
    factor = _RELATED if related else 1.0
    idf = rarity(len(hits.positions), total)
    if len(term) == 1 and term >= "\u3400":
        factor *= _CHARACTER
    return WeightedTerm(hits, idf * factor * (_NAME if of_author else 1.0), of_author, related)


def rarity(common: int, total: int) -> float:
    """Return the idf of BM25 of a term that ``common`` of ``total`` messages have."""
    return float(np.log1p((total - common + 0.5) / (common + 0.5)))


def united(hits: Sequence[TermHits]) -> TermHits:
    """Unite the hits of several terms that count as one. A message that has several of these terms
    counts as if it had one of them once."""
    if len(hits) == 1:
        return hits[0]
    places = np.concatenate([each.positions for each in hits])
    order = np.argsort(places, kind="stable")
    first = order[_firsts(places[order])]
    return TermHits(places[first], np.concatenate([each.postings for each in hits])[first])


def rank(
    terms: Sequence[WeightedTerm],
    total: int,
    mean_length: float,
    allowed: Allowed | None = None,
    scratch: Scratch | None = None,
) -> Ranked:
    """Rank messages.

    Args:
        terms: The terms of the question.
        total: The number of positions of the chat.
        mean_length: The mean number of terms of a message.
        allowed: For each position, whether the message fits the filters of the search. Only such
            messages are returned. None if all messages fit.
        scratch: An array that several calls use, one after another.

    Returns:
        The messages, best first. In a small chat, messages without any of the terms are included,
        as the last ones.
    """
    if not terms or not total:
        return Ranked(np.zeros(0, np.int64), np.zeros(0, np.float32))
    if total > _ALL:
        terms = _telling(terms)
        places = _candidates(terms, total, allowed, scratch or Scratch())
    else:
        places = np.arange(total)
    if allowed is not None:
        places = places[allowed[places]]
    scores = _scores(terms, places, mean_length)
    order = np.argsort(-scores, kind="stable")
    if total > _ALL:
        order = order[scores[order] > 0]
    return Ranked(places[order], scores[order])


def _telling(terms: Sequence[WeightedTerm]) -> list[WeightedTerm]:
    """Return the rarest terms, rarest first. Together they have at most `_MOST_POSTINGS` postings,
    but the rarest term is always returned."""
    found: list[WeightedTerm] = []
    budget = _MOST_POSTINGS
    for term in sorted(terms, key=lambda each: len(each.hits.positions)):
        budget -= len(term.hits.positions)
        if budget < 0 and found:
            break
        found.append(term)
    return found


def _candidates(
    terms: Sequence[WeightedTerm], total: int, allowed: Allowed | None, scratch: Scratch
) -> Positions:
    """Return the positions of the messages whose own words have the best scores, and of their
    neighbours. ``terms`` must be sorted, the rarest first."""
    scores = scratch.zeros(total)
    seeding: list[Positions] = []
    seeded = 0
    for term in terms:
        places = term.hits.positions
        if not seeding or seeded + len(places) <= _MOST_SEEDING:
            seeded += len(places)
            seeding.append(places)
            _add(scores, term, slice(None))
        else:
            # This term is common. It adds to the scores of messages that also have a rarer term.
            # Their scores are above 0 already. Other messages are not looked for.
            _add(scores, term, np.flatnonzero(scores[places]))
    places = np.concatenate(seeding)
    number = _SEEDS_IN_MEDIUM if total <= MEDIUM else _SEEDS
    seeds = [_best(places, scores, number)]
    if allowed is not None:
        seeds.append(_best(places[allowed[places]], scores, number))
    for some in seeding:
        scores[some] = 0.0
    around = np.concatenate(seeds)[:, None] + np.arange(-_FAR // 2, _FAR // 2 + 1)
    return unique(around[(around >= 0) & (around < total)])


def _add(scores: Floats, term: WeightedTerm, indices: slice | NDArray[np.int64]) -> None:
    """Add the score of a term to the scores of the messages that have it.

    Args:
        scores: The score of each position.
        term: The term.
        indices: The indices, in the hits of the term, of the messages that get the score.
    """
    places, postings = term.hits.positions[indices], term.hits.postings[indices]
    gains = np.float32(term.weight) * _by_count()
    before = scores[places]
    after = before + gains[1]
    # Most messages have a term only once. The scores of the few other messages are corrected here.
    several = np.flatnonzero(has_several(postings))
    after[several] = before[several] + gains[counts(postings[several]).astype(np.int64)]
    scores[places] = after


def _best(places: Positions, scores: Floats, number: int) -> Positions:
    """Return the ``number`` positions with the best scores. ``places`` may contain a position
    several times; the result does not."""
    if len(places) > 8 * number:
        found = scores[places]
        # A position can occur once for each term. So take eight times as many positions as needed:
        # then enough different positions are left.
        places = places[np.argpartition(found, -8 * number)[-8 * number :]]
    places = unique(places)
    return places[np.argsort(-scores[places], kind="stable")[:number]]


def unique(places: Positions) -> Positions:
    """Return the positions in ascending order, each once. On some thousand numbers, `np.unique`
    takes ten times as long as this function."""
    ordered = np.sort(places)
    return ordered[_firsts(ordered)]


def _firsts(ordered: Positions) -> NDArray[np.bool_]:
    """Return for each number whether it differs from the number before."""
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _scores(terms: Sequence[WeightedTerm], places: Positions, mean_length: float) -> Floats:
    """Return the scores of the messages at these positions."""
    scores = np.zeros(len(places), np.float32)
    long = np.full(len(places), mean_length, np.float32)
    near = unique((places[:, None] + np.arange(-_FAR, _FAR + 1)).reshape(-1))
    own = np.searchsorted(near, places)
    beside, around = _range_within(near, places, _NEAR), _range_within(near, places, _FAR)
    each_count: list[tuple[WeightedTerm, Floats]] = []
    for term in terms:
        has, postings = term.hits.at(near)
        often = np.where(has, counts(postings), np.float32(0))
        if term.of_author:
            scores += term.weight * often[own]
            continue
        long = np.where(has[own], lengths(postings[own]), long)
        sums = np.concatenate(([0.0], np.cumsum(often, dtype=np.float64)))
        count = _OWN * often[own] + _BESIDE * _sum(sums, beside) + _AROUND * _sum(sums, around)
        each_count.append((term, count))
    for term, count in each_count:
        scores += term.weight * saturated(count, long, mean_length)
    return scores


def _range_within(
    near: Positions, places: Positions, distance: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the positions of ``near`` that are at most ``distance`` away from each position of
    ``places``. Return the index of the first of them in ``near``, and the index after the last."""
    begin = np.searchsorted(near, places - distance)
    return begin, np.searchsorted(near, places + distance, side="right")


def _sum(sums: NDArray[np.float64], indices: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Floats:
    begin, end = indices
    return (sums[end] - sums[begin]).astype(np.float32)


def saturated(count: Floats, length: Floats, mean_length: float) -> Floats:
    """Return the counts as BM25 weights them: each further occurrence of a term counts less than
    the one before, and each occurrence counts less in a long message."""
    slack = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean_length)
    return np.asarray(count * (_SATURATION + 1) / (count + slack), np.float32)


@cache
def _by_count() -> Floats:
    """The count of a term that occurs 0, 1, 2, ... times in a message of average length."""
    return np.array([n * (_SATURATION + 1) / (n + _SATURATION) for n in range(16)], np.float32)
