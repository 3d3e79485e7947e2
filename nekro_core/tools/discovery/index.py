"""Which tools fit a wish: by their names, the words of their descriptions, and what both mean.

A score is the sum over the terms of the query that a tool has, each weighed by how few tools have
it (the idf of BM25) and where (a name says more than a description, that more than a parameter).
Terms are stems of English words and each three letters of them (compounds, and words that are
misspelt), pairs of neighbouring Chinese or Japanese characters, and concepts of the trilingual
lexicon, by which a query finds a description in another language. A tool that has something of
every part of a query goes before one that has much of a single part.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nekro_core.tools.discovery.lexicon import Lexicon, lexicon
from nekro_core.tools.discovery.words import folded, threes
from nekro_core.tools.names import NamedTool

_NAME = 2.0
_BRIEF = 1.0
_PLUGIN = 0.3
_REST = 0.5
"""Weights of the places in which a term may stand."""
_WORD = 0.4
_PAIR = 0.4
_CONCEPT = 1.0
_STRANGE = 0.6
_LETTERS = 0.2
"""Weights of the kinds of terms; a word of Chinese is about two pairs, and an English one that the
lexicon does not know is likely a name. The last is that of all of a word's letters together."""
_AGAIN = 0.25
"""How much it adds that a word is met in a second way: as it stands and by what it means."""
_COVERS = 0.5
"""The power of how much of a query a tool covers, by which its score is multiplied."""
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
    """Tools, ready to be searched. Making one takes some tenths of a millisecond a tool."""

    def __init__(self, tools: Iterable[NamedTool], known: Lexicon | None = None) -> None:
        self._lexicon = known or lexicon()
        self._tools = tuple(tools)
        self._terms = [self._of_tool(each) for each in self._tools]
        self._having = Counter(term for terms in self._terms for term in terms)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """The tools that fit best, best first; none that has nothing of the query."""
        plain = folded(query[:_MAX_QUERY])
        wanted = list(self._parts(plain))
        exact = "_".join(plain.split())
        hits = [
            (-score, len(terms), named)
            for named, terms in zip(self._tools, self._terms, strict=True)
            if (score := self._score(wanted, terms) + _named(named, exact)) > 0
        ]
        # Of equals the one that is about least else.
        hits.sort(key=lambda hit: (*hit[:2], hit[2].name))
        return [Hit(named, -score) for score, _, named in hits[:limit]]

    def _score(
        self, wanted: Sequence[Mapping[_Term, float]], terms: Mapping[_Term, float]
    ) -> float:
        total = asked = covered = 0.0
        for part in wanted:
            if not part:
                continue
            says = max(weight * self._rarity(term) for term, weight in part.items())
            asked += says
            found = [
                weight * terms[term] * self._rarity(term)
                for term, weight in part.items()
                if term in terms
            ]
            if found:
                best = max(found)
                total += best + _AGAIN * (sum(found) - best)
                covered += says
        return total * (covered / asked) ** _COVERS if total else 0.0

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
        terms: dict[_Term, float] = {}
        for part in self._parts(plain):
            for term, weight in part.items():
                terms[term] = max(terms.get(term, 0.0), weight)
        return terms

    def _parts(self, plain: str) -> Iterator[dict[_Term, float]]:
        for written, concepts in self._lexicon.parts(plain):
            word = _WORD if concepts else _STRANGE
            terms: dict[_Term, float] = {
                each: word if each.isascii() else _PAIR for each in written
            }
            terms |= {concept: _CONCEPT * sure for concept, sure in concepts.items()}
            for each in written:
                three = threes(each)
                terms |= {letters: _LETTERS * len(three) ** -0.5 for letters in three}
            yield terms


def _named(named: NamedTool, exact: str) -> float:
    return _EXACT if exact in {name.lower() for name in named.names} else 0.0
