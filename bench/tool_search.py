"""Measures hits and time of the tool search, and of variants of it. The variants show whether each
part of the search is needed.

A hit is counted as in docs/decisions/0028: the wanted tool is among the first three results. The
searches are in numbered sets. The lexicon lists words that express the same concept. It was
improved with the misses of the fifth and the sixth set, but not with the misses of the seventh.

BM25 is the textbook formula over the same stems, character pairs and letter triples, without the
lexicon. BM25 is combined with the encoder in two ways. In the first, the score of BM25, divided by
the score of the rarest possible word, is added to the similarity. In the second, the two rankings
are fused by reciprocal ranks.

Source of the constant 60 (``_RANKS``): Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion
outperforms Condorcet and individual rank learning methods" (2009).
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing

from bench.figure import Figure, percentiles
from nekro_core.tools.discovery import SentenceVectors, ToolIndex
from nekro_core.tools.discovery.lexicon import ConceptLexicon
from nekro_core.tools.discovery.words import (
    all_words,
    character_bigrams,
    character_trigrams,
    cjk_runs,
    folded,
    is_stop_word,
)
from nekro_core.tools.names import NamedTool
from tests.tools.discovery.searches import Search, known_tools, searches, searches_for_names

_SETS = {"5": "_fifth", "6": "_sixth", "7": "_seventh"}
_RANKS = 60
_SHARE = 0.08
"""The weight of BM25. Among the values from 0.02 to 0.2, this value gave the most hits in the first
four sets and the tuning file."""

Scores = Sequence[float]


async def figures() -> list[Figure]:
    """The hits of each variant in each set, then the time of a search."""
    found: list[Figure] = []
    async with aclosing(SentenceVectors(timeout_s=250)) as vectors:
        for number, name in _SETS.items():
            found += await _forms(f"set {number}", vectors, name, searches(name))
        found += await _forms("names", vectors, "_seventh", searches_for_names())
        found += await _latency(vectors)
    return found


async def _forms(
    title: str, vectors: SentenceVectors, name: str, cases: Sequence[Search]
) -> list[Figure]:
    tools = known_tools(name).named
    today, bare, words = ToolIndex(tools), ToolIndex(tools, ConceptLexicon(())), _BM25(tools)
    hits: Counter[str] = Counter()
    for query, tool in cases:
        near = await vectors.of(query, today.sentences)
        said = words.scores(query)
        added = [n + _SHARE * min(w / words.most, 1.0) for n, w in zip(near, said, strict=True)]
        firsts = {
            "today": _named(today, query, near),
            "today without the encoder": _named(today, query),
            "today without the lexicon": _named(bare, query, near),
            "encoder alone": _first(tools, near),
            "BM25 alone": _first(tools, said),
            "encoder + BM25, added": _first(tools, added),
            "encoder + BM25, ranks": _first(tools, _fused(near, said)),
        }
        hits.update({form: int(tool in first) for form, first in firsts.items()})
    unit = f"of {len(cases)}"
    return [
        Figure(name=f"tool_search, {title}: {form}", unit=unit, p50=many, more_is_better=True)
        for form, many in hits.items()
    ]


async def _latency(vectors: SentenceVectors) -> list[Figure]:
    tools = known_tools().named
    cases = [query for name in ("_fifth", "_sixth") for query, _ in searches(name)]
    samples: dict[str, list[float]] = {"the bot's part": [], "its part without lexicon": []}
    asked: list[float] = []
    for known, each in zip((None, ConceptLexicon(())), samples.values(), strict=True):
        index = ToolIndex(tools, known)
        await vectors.of("weather", index.sentences)  # encodes the tools' texts beforehand
        for query in cases:
            began = time.perf_counter()
            near = await vectors.of(query, index.sentences)
            asked.append(1000 * (time.perf_counter() - began))
            began = time.perf_counter()
            index.search(query, 3, near)
            each.append(1000 * (time.perf_counter() - began))
    found = []
    for name, taken in {"the encoder's answer": asked, **samples}.items():
        p50, p99 = percentiles(taken)
        title = f"tool_search over {len(tools)} tools: {name}"
        found.append(Figure(name=title, unit="ms", p50=p50, p99=p99))
    return found


class _BM25:
    """BM25 with k1 = 1.2 and b = 0.3. Words of the tool's name have the weight 2, words of the
    plugin's name 0.5, words of the description 1."""

    def __init__(self, tools: Sequence[NamedTool]) -> None:
        self._texts = [_terms_of(each) for each in tools]
        self._having = Counter(term for text in self._texts for term in text)
        self._lengths = [sum(text.values()) for text in self._texts]
        self._mean = sum(self._lengths) / len(tools)
        self.most = 2.2 * math.log(1 + (len(tools) + 0.5) / 1.5)
        """The largest possible score of a word. A word has this score if it occurs in only one
        tool, and there many times."""

    def scores(self, query: str) -> list[float]:
        """The score of each tool."""
        wanted = _terms(query)
        return [
            sum(
                much * self._rarity(term) * text[term] * 2.2 / (text[term] + norm)
                for term, much in wanted.items()
                if term in text
            )
            for text, length in zip(self._texts, self._lengths, strict=True)
            for norm in (1.2 * (0.7 + 0.3 * length / self._mean),)
        ]

    def _rarity(self, term: str) -> float:
        having = self._having[term]
        return math.log(1 + (len(self._texts) - having + 0.5) / (having + 0.5))


def _terms_of(named: NamedTool) -> dict[str, float]:
    tool = named.tool
    found: dict[str, float] = {}
    for weight, text in ((2.0, tool.name), (0.5, tool.module), (1.0, tool.description)):
        for term, much in _terms(text).items():
            found[term] = found.get(term, 0.0) + weight * much
    return found


def _terms(text: str) -> dict[str, float]:
    plain = folded(text)
    found: dict[str, float] = {}
    for word in all_words(plain):
        if is_stop_word(word):
            continue
        found[word] = found.get(word, 0.0) + 1.0
        three = character_trigrams(word)
        for letters in three:
            found[letters] = found.get(letters, 0.0) + 0.5 * len(three) ** -0.5
    for run in cjk_runs(plain):
        for pair in character_bigrams(run):
            found[pair] = found.get(pair, 0.0) + 1.0
    return found


def _fused(*scores: Scores) -> list[float]:
    total = [0.0] * len(scores[0])
    for each in scores:
        for rank, place in enumerate(_places(each), 1):
            if each[place] > 0:
                total[place] += 1 / (_RANKS + rank)
    return total


def _first(tools: Sequence[NamedTool], scores: Scores) -> list[str]:
    return [tools[place].tool.name for place in _places(scores)[:3] if scores[place] > 0]


def _places(scores: Scores) -> list[int]:
    """The positions of the tools, best score first."""
    return sorted(range(len(scores)), key=lambda place: -scores[place])


def _named(index: ToolIndex, query: str, near: Scores = ()) -> list[str]:
    return [hit.named.tool.name for hit in index.search(query, 3, near)]
