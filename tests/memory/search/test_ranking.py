"""In a large chat, not all messages are ranked, but the messages whose own words fit the question
best are among those that are."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nekro_core.memory.search.ranking import Scratch, WeightedTerm, rank, weighted
from nekro_core.memory.search.word_hits import TermHits
from nekro_core.store.search_pages import posting

TOTAL = 30_000
MEAN_LENGTH = 6.0


LENGTHS = np.random.default_rng(39).integers(3, 12, TOTAL)
"""The number of terms of each message of the chat."""


def _term(chance: np.random.Generator, common: int) -> WeightedTerm:
    places = np.sort(chance.choice(TOTAL, common, replace=False)).astype(np.int64)
    often = chance.integers(1, 4, common)
    postings = [
        posting(0, int(count), int(length))
        for count, length in zip(often, LENGTHS[places], strict=True)
    ]
    return weighted(TermHits(places, np.array(postings, np.uint32)), TOTAL, "term")


def _dense(term: WeightedTerm) -> NDArray[np.float64]:
    """Return how often each message of the chat has the term."""
    counts = np.zeros(TOTAL)
    counts[term.hits.positions] = term.hits.postings >> 8 & 15
    return counts


def _expected(terms: list[WeightedTerm]) -> NDArray[np.float64]:
    """Return the score of each message, by the formula that stands at the top of ``ranking.py``."""
    length = np.full(TOTAL, MEAN_LENGTH)
    for term in terms:
        length[term.hits.positions] = term.hits.postings & 255
    scores = np.zeros(TOTAL)
    for term in terms:
        own = _dense(term)
        padded = np.pad(own, 4)
        beside = sum(padded[4 + d : 4 + d + TOTAL] for d in range(-1, 2))
        around = sum(padded[4 + d : 4 + d + TOTAL] for d in range(-4, 5))
        count = own + 0.3 * beside + 0.2 * around
        scores += term.weight * count * 2 / (count + 0.8 + 0.2 * length / MEAN_LENGTH)
    return scores


@pytest.mark.parametrize("seed", range(4))
def test_messages_get_the_score_of_the_formula_and_the_best_come_first(seed: int) -> None:
    chance = np.random.default_rng(seed)
    terms = [_term(chance, common) for common in (9000, 30, 2500, 12_000, 400)]
    expected = _expected(terms)
    scratch = Scratch()
    for _ in range(2):  # The second search uses the scratch array of the first one again.
        found = rank(terms, TOTAL, MEAN_LENGTH, None, scratch)
        assert np.allclose(found.scores, expected[found.positions], rtol=1e-4)
        assert (np.diff(found.scores) <= 0).all()
        assert not scratch.zeros(TOTAL).any()
    words = sum(term.weight * _dense(term) * 2 / (_dense(term) + 1) for term in terms)
    assert set(np.argsort(-words)[:50].tolist()) <= set(found.positions.tolist())


def test_filtered_messages_are_ranked_among_themselves() -> None:
    chance = np.random.default_rng(7)
    terms = [_term(chance, common) for common in (9000, 3000, 400)]
    allowed = np.zeros(TOTAL, np.bool_)
    allowed[20_000:20_500] = True
    found = rank(terms, TOTAL, MEAN_LENGTH, allowed, Scratch())
    assert len(found.positions) > 50
    assert allowed[found.positions].all()
    assert np.allclose(found.scores, _expected(terms)[found.positions], rtol=1e-4)
