"""Which tools fit a wish: by their names, the words of their descriptions, and what both mean.

A score is the sum over the terms of the query that a tool has, each weighed by how few tools have
it (the idf of BM25) and where (a name says more than a description, that more than a parameter).
Terms are stems of English words, pairs of neighbouring Chinese or Japanese characters, and concepts
of the trilingual lexicon, by which a query finds a description in another language.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nekro_core.tools.discovery.lexicon import Lexicon, lexicon
from nekro_core.tools.discovery.words import folded, pairs, runs, words
from nekro_core.tools.names import NamedTool

_NAME = 2.0
_BRIEF = 1.2
_PLUGIN = 0.5
_REST = 0.5
"""Weights of the places in which a term may stand."""
_WORD = 0.6
_PAIR = 0.4
_CONCEPT = 1.0
"""Weights of the kinds of terms; a word of Chinese is about two pairs."""
_EXACT = 100.0
"""For the name itself: nobody who knows it wants another tool."""
_MAX_QUERY = 400
_MAX_TEXT = 2000
"""Characters that are looked at; a query of a model's is a few words."""

_Term = str | int


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found."""

    named: NamedTool
    score: float


class ToolIndex:
    """Tools, ready to be searched. Making one takes about 0.1 ms a tool."""

    def __init__(self, tools: Iterable[NamedTool], known: Lexicon | None = None) -> None:
        self._lexicon = known or lexicon()
        self._tools = tuple(tools)
        self._terms = [self._of_tool(each) for each in self._tools]
        self._having = Counter(term for terms in self._terms for term in terms)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """The tools that fit best, best first; none that has nothing of the query."""
        plain = folded(query[:_MAX_QUERY])
        wanted = self._of_text(plain)
        exact = "_".join(plain.split())
        hits = [
            Hit(named, score)
            for named, terms in zip(self._tools, self._terms, strict=True)
            if (score := self._score(wanted, terms) + _named(named, exact)) > 0
        ]
        hits.sort(key=lambda hit: (-hit.score, hit.named.name))
        return hits[:limit]

    def _score(self, wanted: Mapping[_Term, float], terms: Mapping[_Term, float]) -> float:
        return sum(
            weight * terms[term] * self._rarity(term)
            for term, weight in wanted.items()
            if term in terms
        )

    def _rarity(self, term: _Term) -> float:
        having = self._having[term]
        return math.log(1 + (len(self._tools) - having + 0.5) / (having + 0.5))

    def _of_tool(self, named: NamedTool) -> Mapping[_Term, float]:
        tool = named.tool
        found: dict[_Term, float] = {}
        parameters = " ".join(f"{each.name} {each.description}" for each in tool.parameters)
        places = (
            (_NAME, (tool.name, tool.python_name)),
            (_BRIEF, (tool.description, tool.summary)),
            (_PLUGIN, (tool.module,)),
            (_REST, (tool.sleep_brief, tool.details, parameters)),
        )
        for place, texts in places:
            for term, weight in self._of_text(folded(" ".join(texts)[:_MAX_TEXT])).items():
                found[term] = max(found.get(term, 0.0), place * weight)
        return found

    def _of_text(self, plain: str) -> Mapping[_Term, float]:
        terms: dict[_Term, float] = dict.fromkeys(words(plain), _WORD)
        for run in runs(plain):
            terms |= dict.fromkeys(pairs(run), _PAIR)
        terms |= {concept: _CONCEPT * sure for concept, sure in self._sure(plain)}
        return terms

    def _sure(self, plain: str) -> Sequence[tuple[int, float]]:
        return tuple(self._lexicon.concepts(plain).items())


def _named(named: NamedTool, exact: str) -> float:
    return _EXACT if exact in {name.lower() for name in named.names} else 0.0
