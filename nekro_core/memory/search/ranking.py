"""Ranks messages by their words and by the words around them.

The score of a message is the sum over the question's terms of the term's weight (the idf of BM25,
more for a term that few messages have) times how much the message is about it. A term counts 1 in
the message itself, 0.3 in it or its neighbours, and 0.2 in it or four messages before and after: in
a conversation, the question before an answer often has the words. Repetition counts less and less,
as in BM25. A name in the question counts for the messages of that person.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009). The
numbers were chosen on conversations of our own (decision 0039).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nekro_core.memory.search.word_hits import Floats, Positions, TermHits

Allowed = NDArray[np.bool_]

_OWN = 1.0
_BESIDE = 0.3
_AROUND = 0.2
"""How much a term counts in the message itself, within one message of it, and within four."""
_NEAR = 1
_FAR = 4
_SATURATION = 1.0
"""BM25's k1: how soon a repeated term counts no more."""
_LENGTH = 0.2
"""BM25's b: how much a long message is marked down. Messages are short, so little."""
_NAME = 1.0
"""How much a name in the question counts, against a term of the same rarity."""
_CHARACTER = 0.6
"""How much a single Chinese character counts, against a pair."""
RELATED = 0.4
"""How much related terms count, against the question's own."""
_BY_COUNT = np.array([n * (_SATURATION + 1) / (n + _SATURATION) for n in range(16)], np.float32)
"""How much a term counts that occurs so often in a message of average length."""
_SEEDS = 200
"""Number of messages with the best words whose neighbourhood is ranked."""
_MOST_SEEDING = 20_000
"""The messages with the best words are looked for among those that have the rarest terms, up to so
many. In a large chat, a message with common terms alone is not one of the best."""
_ALL = 3000
"""In chats with at most so many messages, all are ranked."""
_MOST_POSTINGS = 150_000
"""Maximum number of postings that are added up. The rarest terms come first; in a chat of a million
messages, the others say little, and take a millisecond for each 50,000."""


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """One term of a question, or several that count as one.

    Attributes:
        hits: The messages that have it.
        weight: How much it counts.
        of_author: Whether it is in the author's name, not in the words.
    """

    hits: TermHits
    weight: float
    of_author: bool = False


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
    """Memory for the scores of all messages of a chat. To get 4 MB of zeros from the system for
    each search took as long as the rest of the ranking."""

    def __init__(self) -> None:
        self._scores = np.zeros(0, np.float32)

    def zeros(self, size: int) -> Floats:
        """Return at least ``size`` zeros. The caller must set what it changes to zero again."""
        if len(self._scores) < size:
            self._scores = np.zeros(size + size // 8, np.float32)
        return self._scores


def weighted(
    hits: TermHits, total: int, term: str, *, factor: float = 1.0, of_author: bool = False
) -> WeightedTerm:
    """Weight a term by its rarity among ``total`` messages."""
    common = len(hits.positions)
    idf = float(np.log1p((total - common + 0.5) / (common + 0.5)))
    if len(term) == 1 and term >= "\u3400":
        factor *= _CHARACTER
    return WeightedTerm(hits, idf * factor * (_NAME if of_author else 1.0), of_author)


def united(hits: Sequence[TermHits]) -> TermHits:
    """Unite the hits of several terms that count as one. A message that has several of them counts
    as if it had one of them once."""
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
        allowed: For each position, whether the message may be found; None for all.
        scratch: Memory that several calls use, one after another.

    Returns:
        The messages, best first. In a small chat, those without any term are the last.
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
    """Return the rarest terms, rarest first, that together have at most `_MOST_POSTINGS`."""
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
    """Return the messages with the best words, and their neighbours. The rarest terms are first."""
    scores = scratch.zeros(total)
    seeding: list[Positions] = []
    seeded = 0
    for term in terms:
        hits = term.hits
        often = hits.postings >> 8 & 15
        scores[hits.positions] += np.float32(term.weight) * _BY_COUNT[often]
        if not seeding or seeded + len(hits.positions) <= _MOST_SEEDING:
            seeded += len(hits.positions)
            seeding.append(hits.positions)
    places = np.concatenate(seeding)
    seeds = [_best(places, scores, _SEEDS)]
    if allowed is not None:
        seeds.append(_best(places[allowed[places]], scores, _SEEDS))
    for term in terms:
        scores[term.hits.positions] = 0.0
    around = np.concatenate(seeds)[:, None] + np.arange(-_FAR // 2, _FAR // 2 + 1)
    return unique(around[(around >= 0) & (around < total)])


def _best(places: Positions, scores: Floats, number: int) -> Positions:
    """Return the places with the best scores. A place may occur several times."""
    if len(places) > 8 * number:
        found = scores[places]
        # A place occurs at most once for each term; eight of each leave enough different ones.
        places = places[np.argpartition(found, -8 * number)[-8 * number :]]
    places = unique(places)
    return places[np.argsort(-scores[places], kind="stable")[:number]]


def unique(places: Positions) -> Positions:
    """Return the places in order, each once. On some thousand numbers, `np.unique` takes ten times
    as long."""
    ordered = np.sort(places)
    return ordered[_firsts(ordered)]


def _firsts(ordered: Positions) -> NDArray[np.bool_]:
    """Return which numbers differ from the one before."""
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _scores(terms: Sequence[WeightedTerm], places: Positions, mean_length: float) -> Floats:
    """Return the scores of the messages at these places, which are in order."""
    scores = np.zeros(len(places), np.float32)
    long = np.full(len(places), mean_length, np.float32)
    each_count: list[tuple[WeightedTerm, Floats]] = []
    for term in terms:
        hits = term.hits
        at = np.searchsorted(hits.positions, places)
        at[at == len(hits.positions)] = 0
        has = hits.positions[at] == places
        often = hits.counts
        own = np.where(has, often[at], 0.0).astype(np.float32)
        if term.of_author:
            scores += term.weight * own
            continue
        long = np.where(has, hits.lengths_at(at), long)
        sums = np.concatenate(([0.0], np.cumsum(often, dtype=np.float64)))
        beside = _within(hits.positions, sums, places, _NEAR)
        around = _within(hits.positions, sums, places, _FAR)
        each_count.append((term, _OWN * own + _BESIDE * beside + _AROUND * around))
    for term, count in each_count:
        scores += term.weight * _saturated(count, long, mean_length)
    return scores


def _within(
    positions: Positions, sums: NDArray[np.float64], places: Positions, distance: int
) -> Floats:
    """Return how often a term occurs within a distance of each place."""
    begin = np.searchsorted(positions, places - distance)
    end = np.searchsorted(positions, places + distance, side="right")
    return (sums[end] - sums[begin]).astype(np.float32)


def _saturated(count: Floats, length: Floats, mean_length: float) -> Floats:
    slack = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean_length)
    return np.asarray(count * (_SATURATION + 1) / (count + slack), np.float32)
