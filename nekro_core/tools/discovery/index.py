"""Ranks tools for a query by their names, by the words of their descriptions, and by meaning.

A tool's score is the sum of the weights of the query's terms that the tool has. A term has more
weight if few tools have it (the idf of BM25). It also has more weight in a name than in a
description, and more in a description than in a parameter. There are five kinds of terms:

- stems of English words
- groups of three letters of English words, for compounds and misspelt words
- pairs of neighbouring Chinese or Japanese characters
- concepts: the lexicon gives English, Chinese and Japanese words of one meaning the same concept,
  so that a query finds descriptions in another language
- the sounds of katakana and English words, so that a word finds the same word in the other script

The score is reduced if the tool has terms of only some parts (words) of the query. So a tool that
matches every part usually ranks before a tool that matches a single part well.

If the similarity in meaning between the query and each tool is known, it is the score, and matching
words add to it. They add at most 0.45. This is about the difference between the similarity of a
tool that fits and the similarity of a tool that does not fit.

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
"""These four numbers are the weights of the places where a tool has a term: the name, the
description, the plugin, and all other places."""
_WORD = 0.4
_PAIR = 0.4
_CONCEPT = 1.0
_STRANGE = 0.6
_LETTERS = 0.2
"""Weights of the kinds of terms. A Chinese word has about two pairs. An English word that is not in
the lexicon (``_STRANGE``) is probably a name. ``_LETTERS`` is the weight of all groups of three
letters of a word together."""
_SOUND = 0.5
"""Weight of a katakana word that sounds like an English word, or the reverse."""
_AGAIN = 0.25
"""After the stem of a word has matched, its concept may match too. Each further match of the same
word is multiplied by this factor."""
_COVERS = 0.5
"""The share of the query that the tool covers is raised to this power. The score is multiplied by
the result."""
_WORDS = 0.45
"""Matching words add at most this number to the similarity. They add the whole number if their
score is at least the weight of the rarest possible term."""
_NEAR = 0.26
"""If no tool has a word of the query, the search finds tools only if the best tool has at least
this similarity. A query that asks for nothing, such as "ok thanks", reaches 0.25."""
_FAR = 0.1
"""If the search finds tools, a tool that has no word of the query is among them only with at least
this similarity."""
_EXACT = 100.0
"""This number is added to the score if the query is the tool's name."""
_MAX_QUERY = 400
_MAX_TEXT = 2000
"""Maximum number of characters that are read of a query, and of each text of a tool (name,
description, ...). A model's query has a few words."""
_MAX_SENTENCE = 240
_MAX_SENTENCES = 2000
"""Two limits: the number of characters of the sentence that the encoder reads about a tool, and the
number of tools with such a sentence. A thousand tools take two seconds of one core."""

_Term = str | int
_Wanted = tuple[tuple[tuple[_Term, float], ...], float]
"""A part of a query: its terms, each with its weight, and the largest of these weights."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A tool that a search found, with its score."""

    named: NamedTool
    score: float


class ToolIndex:
    """A search index of tools. Building it takes some tenths of a millisecond for each tool.
    ``known`` is the lexicon; None for the usual one."""

    def __init__(self, tools: Iterable[NamedTool], known: ConceptLexicon | None = None) -> None:
        self._lexicon = known or lexicon()
        self._tools = tuple(tools)
        self._terms = [self._of_tool(each) for each in self._tools]
        self._having = Counter(term for terms in self._terms for term in terms)
        self._rarest = math.log(1 + (len(self._tools) + 0.5) / 1.5)
        self.sentences = tuple(_sentence(each.tool) for each in self._tools[:_MAX_SENTENCES])
        """One sentence for each tool. `search` gets the similarity between the query and each of
        these."""

    def search(self, query: str, limit: int = 5, near: Sequence[float] = ()) -> list[SearchHit]:
        """Find the ``limit`` tools that fit a query best, best first. Tools without any match are
        left out.

        ``near`` has the similarity between the query and each of the ``sentences``, from -1 to 1.
        It is empty if the similarities are not known; then only matching words count.
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
        # If tools have equal scores, the tool with the fewest terms comes first.
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
        """Yield the sounds of words that are not in the lexicon, if any tool has the sound. Other
        sounds are left out, because the share of the query that a tool covers would then be too
        low."""
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
        )  # スタックオーバーフロー stands for two English words
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
