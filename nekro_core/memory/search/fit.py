"""Tells whether a chat has messages that fit a question well, or whether none of them does."""

from __future__ import annotations

from collections.abc import Mapping

from nekro_core.memory.search.message import name_term
from nekro_core.memory.search.question import SearchQuestion
from nekro_core.memory.search.ranking import rarity, weighted
from nekro_core.memory.search.word_hits import TermHits

_SIMILARITY = 3.35
_LEAST_WITH_MEANING = 1.04
_LEAST_BY_WORDS = 0.12
"""The share is the part of the question's words that the chat has (`known_share`). In a search with
meaning, messages fit if the share plus `_SIMILARITY` times the similarity of the most similar
message is at least `_LEAST_WITH_MEANING`. In a search without meaning, they fit if the share is at
least `_LEAST_BY_WORDS`. The numbers are from a logistic regression on questions that were asked in
the conversations with their answers, and in other conversations. With these numbers, a search
says that nothing fits for fewer than one in a hundred of the questions that have an answer
(decision 0039)."""


def fits_well(
    question: SearchQuestion,
    hits: Mapping[str, TermHits],
    total: int,
    similarity: float | None,
) -> bool:
    """Return whether the chat has messages that fit a question well.

    Args:
        question: The question.
        hits: The messages that have each term.
        total: The number of positions of the chat.
        similarity: The similarity of the question and the most similar message; None if the
            meaning is not compared.
    """
    share = known_share(question, hits, total)
    if similarity is None:
        return share >= _LEAST_BY_WORDS
    return share + _SIMILARITY * similarity >= _LEAST_WITH_MEANING


def known_share(question: SearchQuestion, hits: Mapping[str, TermHits], total: int) -> float:
    """Return which share of the question's terms occurs in the chat, from 0 to 1. Each term is
    weighted by its rarity. A term that occurs only in the name of an author is ignored."""
    known = unknown = 0.0
    for term in question.terms:
        if term in hits:
            known += weighted(hits[term], total, term).weight
        elif name_term(term) not in hits:
            unknown += rarity(0, total)
    return known / (known + unknown) if known + unknown else 1.0
