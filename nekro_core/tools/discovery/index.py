"""Ranks tools for a query: by their names, the words of their descriptions, and the meaning of
both.

A score is the sum over the terms of the query that a tool has. Each term is weighed by how few
tools have it (the idf of BM25) and by its place (a name counts more than a description, and that
more than a parameter). Terms are: stems of English words; their groups of three letters, for
compounds and misspelt words; pairs of neighbouring Chinese or Japanese characters; concepts of the
trilingual lexicon, by which a query finds a description in another language; and the sounds of
katakana and English words, by which one finds the other. A tool that matches every part of a query
ranks before one that matches a single part well.

Where the nearness in meaning between the query and each tool is known, it is the score, and the
words add to it. For a full match they add about the difference between a far tool and a near one.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, repeat

from nekro_core.tools.discovery.lexicon import ConceptLexicon, lexicon
from nekro_core.tools.discovery.phonetics import (
    runs_of_katakana,
    sound_of_english,
    sound_of_katakana,
)
from nekro_core.tools.discovery.words import character_trigrams, content_words, folded
from nekro_core.tools.names import NamedTool
from nekro_core.tools.tool import Tool

_NAME = 2.0
_BRIEF = 1.0
_PLUGIN = 0.3
_REST = 0.5
"""Weights of the places of a term."""
_WORD = 0.4
_PAIR = 0.4
_CONCEPT = 1.0
_STRANGE = 0.6
_LETTERS = 0.2
"""Weights of the kinds of terms. A Chinese word is about two pairs. An English word that the
lexicon does not know (``_STRANGE``) is likely a name. ``_LETTERS`` is for all groups of three
letters of a word together."""
_SOUND = 0.5
"""Weight of a word that sounds like one of the other script."""
_AGAIN = 0.25
"""Factor for further matches of one word, such as by its concept besides its stem."""
_COVERS = 0.5
"""Exponent of the covered share of a query, which multiplies the score."""
_WORDS = 0.45
"""The most that matching words add to the nearness; reached at the weight of the rarest possible
term."""
_NEAR = 0.26
"""How near the nearest tool must be where no tool has a word of the query. A query that asks for
nothing, such as "ok thanks", reaches 0.25."""
_FAR = 0.1
"""How near a tool without a word of the query must be, once any tool fits."""
_EXACT = 100.0
"""For a query that is a tool's name: it wants this tool."""
_MAX_QUERY = 400
_MAX_TEXT = 2000
"""Most characters that are read of a query and of a place; a model's query is a few words."""
_MAX_SENTENCE = 240
_MAX_SENTENCES = 2000
"""Most characters of a tool's sentence, and most tools with one: a thousand take two seconds of a
core."""

_Term = str | int
_Wanted = tuple[tuple[tuple[_Term, float], ...], float]
"""A part of a query: the terms that match it, each with its weight, and the largest weight."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A tool that was found."""

    named: NamedTool
    score: float


class ToolIndex:
    """A search index of tools. Making it takes some tenths of a millisecond for each tool."""

    def __init__(self, tools: Iterable[NamedTool], known: ConceptLexicon | None = None) -> None:
        self._lexicon = known or lexicon()
        self._tools = tuple(tools)
        self._terms = [self._of_tool(each) for each in self._tools]
        self._having = Counter(term for terms in self._terms for term in terms)
        self._rarest = math.log(1 + (len(self._tools) + 0.5) / 1.5)
        self.sentences = tuple(_sentence(each.tool) for each in self._tools[:_MAX_SENTENCES])
        """One sentence for each tool, to compare a query with: see `search`."""

    def search(self, query: str, limit: int = 5, near: Sequence[float] = ()) -> list[SearchHit]:
        """The tools that fit best, best first; tools without any match are left out.

        ``near``: how near the query is to each of the ``sentences``, from -1 to 1.
        """
        plain = folded(query[:_MAX_QUERY])
        wanted = tuple(self._wanted(plain))
        exact = "_".join(plain.split())
        by_words = [self._score(wanted, terms) for terms in self._terms]
        fits = any(by_words) or max(near, default=0.0) >= _NEAR
        hits = [
            (-score, len(terms), named)
            for named, terms, said, nearness in zip(
                self._tools, self._terms, by_words, chain(near, repeat(0.0)), strict=False
            )
            if (score := self._fused(said, nearness, fits=fits) + _named(named, exact)) > 0
        ]
        # Of equal scores the tool with the fewest other terms comes first.
        hits.sort(key=lambda hit: (*hit[:2], hit[2].name))
        return [SearchHit(named, -score) for score, _, named in hits[:limit]]

    def _score(self, wanted: Sequence[_Wanted], terms: Mapping[_Term, float]) -> float:
        total = asked = covered = 0.0
        for part, says in wanted:
            asked += says
            found = [counts * terms[term] for term, counts in part if term in terms]
            if found:
                best = max(found)
                total += best + _AGAIN * (sum(found) - best)
                covered += says
        return total * (covered / asked) ** _COVERS if total else 0.0

    def _wanted(self, plain: str) -> Iterator[_Wanted]:
        for terms in self._parts(plain):
            part = tuple((term, weight * self._rarity(term)) for term, weight in terms.items())
            if part:
                yield part, max(counts for _, counts in part)
        for sound in self._strange_sounds(plain):
            counts = _SOUND * self._rarity(sound)
            yield ((sound, counts),), counts

    def _strange_sounds(self, plain: str) -> Iterator[str]:
        """The sounds of the words that the lexicon does not have. Only sounds that a tool has: a
        word without a match in the other script must not lower the covered share."""
        katakana = [run for run in runs_of_katakana(plain) if not self._known(run)]
        english = [word for word in content_words(plain) if not self._known(word)]
        for sound in _sounds(katakana, english, katakana="~e", english="~k"):
            if sound in self._having:
                yield sound

    def _known(self, word: str) -> bool:
        return any(concepts for _, concepts in self._lexicon.parts(word))

    def _fused(self, by_words: float, near: float, *, fits: bool) -> float:
        if not near:
            return by_words
        if not by_words and not (fits and near >= _FAR):
            return 0.0
        return max(near, 0.0) + _WORDS * min(by_words / self._rarest, 1.0)

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
        words = content_words(plain)
        joined = (
            first + second for first, second in pairwise(words)
        )  # スタックオーバーフロー is one
        heard = _sounds(runs_of_katakana(plain), chain(words, joined), katakana="~k", english="~e")
        return terms | dict.fromkeys(heard, 1.0)

    def _parts(self, plain: str) -> Iterator[dict[_Term, float]]:
        for written, concepts in self._lexicon.parts(plain):
            word = _WORD if concepts else _STRANGE
            terms: dict[_Term, float] = {
                each: word if each.isascii() else _PAIR for each in written
            }
            terms |= {concept: _CONCEPT * sure for concept, sure in concepts.items()}
            for each in written:
                three = character_trigrams(each)
                terms |= {letters: _LETTERS * len(three) ** -0.5 for letters in three}
            yield terms


def _sounds(runs: Iterable[str], words: Iterable[str], *, katakana: str, english: str) -> set[str]:
    heard = {katakana + sound for run in runs if (sound := sound_of_katakana(run))}
    return heard | {english + sound for word in words if (sound := sound_of_english(word))}


def _sentence(tool: Tool) -> str:
    module, name = (folded(each.replace("_", " ")) for each in (tool.module, tool.name))
    told = " ".join((tool.description or tool.summary).split())
    return f"{module}: {name}: {told}"[:_MAX_SENTENCE]


def _named(named: NamedTool, exact: str) -> float:
    return _EXACT if exact in {name.lower() for name in named.names} else 0.0
