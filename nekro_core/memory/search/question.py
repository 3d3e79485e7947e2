"""Splits a question into its terms, related terms, and the times that it names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import cache
from importlib.resources import files

from nekro_core.memory.search.dates import Span, spans_in, without_relative_times
from nekro_core.memory.search.message import name_term
from nekro_core.memory.search.ranking import WeightedTerm, united, weighted
from nekro_core.memory.search.terms import terms_of
from nekro_core.memory.search.word_hits import TermHits

LONGEST_QUESTION = 1000
"""Maximum number of characters of a question that are read. Usually a model asks one sentence."""
_MOST_TERMS = 40
"""Maximum number of terms that are searched. For each term, up to thirty pages of the index are
read."""

_ASKING_WORDS = frozenset(
    terms_of(
        "many much kind sort say tell mention talk discuss speak ever someone something somebody "
        "anyone anything anybody remember know find message messages chat"
    )
)
"""Words that only serve to ask. The message that answers the question does not contain them, so
they are not searched."""


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """A question, split into what a search needs.

    Attributes:
        text: The question.
        terms: The terms of the question.
        related: Maps some of the terms to terms of the same subject: for example "pet" to "dog".
        spans: The time spans that the question names.
    """

    text: str
    terms: tuple[str, ...]
    related: Mapping[str, tuple[str, ...]]
    spans: tuple[Span, ...]


def read_question(text: str, now: float, zone: tzinfo | None = None) -> SearchQuestion:
    """Read a question. Any text is allowed; there are no search operators.

    Args:
        text: The question.
        now: The present time in seconds since 1970, for "last week" and the like.
        zone: The time zone of the times in the question; None for the machine's.
    """
    text = text[:LONGEST_QUESTION]
    terms = dict.fromkeys(terms_of(_asking_pattern().sub(" ", without_relative_times(text))))
    spans = tuple(spans_in(text, now, zone))
    telling = [term for term in terms if term not in _ASKING_WORDS]
    if not telling and not spans:
        telling = list(terms)
    chosen = telling[:_MOST_TERMS]
    related = {term: _related()[term] for term in chosen if term in _related()}
    return SearchQuestion(text, tuple(chosen), related, spans)


def searched_terms(question: SearchQuestion) -> list[str]:
    """Return the terms that are read from the index for a question."""
    related = (each for some in question.related.values() for each in some)
    return [*question.terms, *map(name_term, question.terms), *related]


def weighted_terms(
    question: SearchQuestion, hits: Mapping[str, TermHits], total: int
) -> list[WeightedTerm]:
    """Return those terms of a question that occur in messages of the chat, with their weights.

    Args:
        question: The question.
        hits: The messages that have each term.
        total: The number of positions of the chat.
    """
    found: list[WeightedTerm] = []
    for term in question.terms:
        if term in hits:
            found.append(weighted(hits[term], total, term))
        if (name := name_term(term)) in hits:
            found.append(weighted(hits[name], total, name, of_author=True))
        if others := [hits[each] for each in question.related.get(term, ()) if each in hits]:
            found.append(weighted(united(others), total, term, related=True))
    return found


@cache
def _asking_pattern() -> re.Pattern[str]:
    """Return the pattern of the words in the file ``asking.txt``."""
    text = (files("nekro_core.memory.search") / "asking.txt").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    words = [word for line in lines for word in line.split()]
    return re.compile("|".join(sorted(words, key=len, reverse=True)))


@cache
def _related() -> Mapping[str, tuple[str, ...]]:
    """Return the related terms of each term, from the file ``related.txt``."""
    text = (files("nekro_core.memory.search") / "related.txt").read_text("utf-8")
    found: dict[str, dict[str, None]] = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        general, colon, particular = line.partition(":")
        members = [dict.fromkeys(_whole_terms(each)) for each in (particular or general).split()]
        names = (
            [dict.fromkeys(_whole_terms(each)) for each in general.split()] if colon else members
        )
        for name in names:
            for term in name:
                for member in [*members, *names]:
                    found.setdefault(term, {}).update(member)
    return {term: tuple(each for each in others if each != term) for term, others in found.items()}


def _whole_terms(word: str) -> list[str]:
    """Return the terms of a word of the file ``related.txt``. For a Chinese or Japanese word, these
    are only its pairs of characters, because a single character means something else."""
    terms = terms_of(word)
    return [each for each in terms if len(each) > 1] or terms
