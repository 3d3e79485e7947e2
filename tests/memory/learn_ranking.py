"""Learns the weights of the features by which a search orders messages
(``nekro_core/memory/search/features.py``), from the conversations of `FOLDERS`. The *evidence* of a
question are the messages that answer it.

    python -m tests.memory.learn_ranking           print the share of the evidence that is found
    python -m tests.memory.learn_ranking --write   also write the weights

The loss of a question is that of a softmax over its messages: the logarithm of the share that the
evidence has in the sum of exp(score), negative. The weights minimize the mean loss plus `_DECAY`
times half of the sum of their squares, with all features scaled to a standard deviation of 1.

Models also search by words of the message that they look for. So the weights are also learnt from
`_BY_WORDS` searches of each conversation, each by one to three words of a message. Their shares are
printed as "words of a message" and are in no other figure. Weights of fitting words and of
similarity are never negative.

The printed shares are *left-out*: the questions of each conversation are ranked with weights that
were learnt from the other conversations only. So no conversation is measured with weights that were
learnt from it.
"""

import asyncio
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nekro_core.chat import ChatKey
from nekro_core.memory.search.indexer import SearchIndexer
from nekro_core.memory.search.meaning import MessageVectors
from nekro_core.memory.search.question import read_question, searched_terms, weighted_terms
from nekro_core.memory.search.ranking import rank
from nekro_core.memory.search.reranking import Reranking
from nekro_core.memory.search.terms import terms_of
from nekro_core.memory.search.word_hits import hits_of, view_of
from nekro_core.store import Store
from nekro_core.tools.discovery import SentenceVectors
from tests.memory.quality import asked_at, fill, read_lines

HERE = Path(__file__).parent
FOLDERS = ("development", "set")
"""The folders whose conversations are learnt from."""
WEIGHTS = HERE.parents[1] / "nekro_core/memory/search/ranking_weights.toml"
_DECAY = 0.02
_BY_WORDS = 6
_HARD = 60
_EASY = 40
"""Weights are learnt from the evidence, from `_HARD` other messages with the best words and
similarity, and from `_EASY` messages that are chosen by chance. The left-out shares were higher
than with weights that were learnt from all messages."""
_POSITIVE = ("words_", "similar_", "author_")
_STEPS = 300
_STEP = 0.05
_DIGITS = 3
_FIRST = (1, 10, 20)

Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class Asked:
    """A question of a conversation, with the features of all messages that are ranked for it."""

    conversation: str
    language: str
    names: tuple[str, ...]
    features: Numbers
    evidence: NDArray[np.bool_]
    fits: NDArray[np.bool_]
    missing: int
    """The number of messages of the evidence that are not ranked at all."""
    by_words: bool
    """Whether it is not a question, but words of a message."""

    def share(self, weights: NDArray[np.float64], first: int) -> float:
        """Return the share of the evidence that is among the ``first`` best messages."""
        order = np.argsort(-(self.features @ weights.astype(np.float32)), kind="stable")
        hits = order[self.fits[order]][:first]
        total = int(self.evidence.sum()) + self.missing
        return float(self.evidence[hits].sum()) / total


async def asked_in(folder: Path, encoder: SentenceVectors | None) -> list[Asked]:
    """Compute the features for all questions of a folder."""
    found: list[Asked] = []
    vectors = MessageVectors(encoder) if encoder else None
    with tempfile.TemporaryDirectory() as temporary:
        async with Store.open(f"sqlite://{temporary}/learn.sqlite3") as store:
            for path in sorted(folder.glob("*.messages.jsonl")):
                found += await _of_conversation(store, path, vectors)
    return found


async def _of_conversation(store: Store, path: Path, vectors: MessageVectors | None) -> list[Asked]:
    name = path.name.partition(".")[0]
    key = ChatKey.parse(f"web-group_{name}")
    messages = read_lines(path)
    numbers = await fill(store, key, messages)
    await SearchIndexer(store).index_all()
    view = await view_of(store, key)
    reranking = Reranking(store, vectors, clock=lambda: 0.0)
    found: list[Asked] = []
    questions = read_lines(path.with_name(path.name.replace("messages", "questions")))
    for asked in [*questions, *_words_of(name, messages, questions[0]["lang"])]:
        question = read_question(asked["q"], asked_at(asked, messages), UTC)
        hits = await hits_of(store, view, searched_terms(question))
        terms = weighted_terms(question, hits, view.total)
        best = rank(terms, view.total, view.mean_length)
        ranked = await reranking.features(view, question, terms, best)
        if ranked is None:
            continue
        wanted = [seq for seq, number in numbers.items() if number in asked["evidence"]]
        evidence = np.isin(ranked.seqs, wanted)
        found.append(
            Asked(
                name,
                asked["lang"],
                tuple(ranked.features),
                np.stack(list(ranked.features.values()), axis=1),
                evidence,
                ranked.fits,
                len(asked["evidence"]) - int(evidence.sum()),
                "by_words" in asked,
            )
        )
    return found


def _words_of(seed: str, messages: list[dict[str, Any]], language: str) -> Iterator[dict[str, Any]]:
    """Yield searches by one to three words of a message. The evidence is each message with these
    words; there are at most three."""
    chance = random.Random(seed)
    of = {each["n"]: set(_words(each["text"])) for each in messages}
    long = [number for number, words in of.items() if len(words) >= 4]
    wanted = _BY_WORDS
    for number in chance.sample(long, len(long)):
        words = chance.sample(sorted(of[number]), chance.randint(1, 3))
        evidence = [each for each, has in of.items() if has.issuperset(words)]
        if len(evidence) <= 3 and wanted > 0:
            wanted -= 1
            yield {"q": " ".join(words), "lang": language, "evidence": evidence, "by_words": True}


def _words(text: str) -> list[str]:
    return sorted({each for each in terms_of(text) if len(each) > 1})


def learnt(asked: list[Asked]) -> NDArray[np.float64]:
    """Learn the weights."""
    asked = [_some(each) for each in asked if each.evidence.any()]
    rows = np.concatenate([each.features for each in asked])
    scale = rows.std(axis=0) + 1e-6
    rows = (rows / scale).astype(np.float32)
    sizes = [len(each.evidence) for each in asked]
    begins = np.cumsum([0, *sizes[:-1]])
    owner = np.repeat(np.arange(len(asked)), sizes)
    wanted = np.concatenate([each.evidence / each.evidence.sum() for each in asked])
    weights = np.zeros(rows.shape[1])
    positive = np.array([each.startswith(_POSITIVE) for each in asked[0].names])
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):  # Adam
        scores = rows @ weights.astype(np.float32)
        powers = np.exp(scores - np.maximum.reduceat(scores, begins)[owner])
        chances = powers / np.add.reduceat(powers, begins)[owner]
        slope = rows.T @ (chances - wanted).astype(np.float32) / len(asked) + _DECAY * weights
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        weights -= _STEP * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
        weights = np.where(positive, np.maximum(weights, 0), weights)
    return np.asarray(weights / scale, np.float64)


def _some(asked: Asked) -> Asked:
    """Return the question with only those messages from which the weights are learnt."""
    chance = np.random.default_rng(0)
    of = dict(zip(asked.names, asked.features.T, strict=True))
    near = of["words_near"]
    if "similar_own" in of:
        near = near + 0.5 * of["similar_own"] + 0.3 * of["similar_1_before"]
    used = asked.evidence.copy()
    used[np.argsort(-near, kind="stable")[:_HARD]] = True
    used[chance.choice(len(used), min(_EASY, len(used)), replace=False)] = True
    return replace(asked, features=asked.features[used], evidence=asked.evidence[used])


def left_out(asked: list[Asked]) -> dict[str, list[float]]:
    """Return the left-out shares of the evidence among the 1, 10 and 20 best messages (`_FIRST`):
    for each language, each conversation, ``all``, and the searches by words of a message."""
    shares: dict[str, list[list[float]]] = defaultdict(list)
    for conversation in sorted({each.conversation for each in asked}):
        weights = learnt([each for each in asked if each.conversation != conversation])
        for each in asked:
            if each.conversation == conversation:
                some = [each.share(weights, first) for first in _FIRST]
                names = (each.language, "all", conversation)
                for name in ("words of a message",) if each.by_words else names:
                    shares[name].append(some)
    return {
        name: [round(mean(column), 3) for column in zip(*some, strict=True)]
        for name, some in shares.items()
    }


def written(tables: dict[str, tuple[tuple[str, ...], NDArray[np.float64]]]) -> str:
    """Return the content of the file of weights."""
    lines = [
        "# The weights of the features of nekro_core/memory/search/features.py. Do not edit: they",
        "# are learnt by `python -m tests.memory.learn_ranking --write`.",
    ]
    for table, (names, weights) in tables.items():
        lines += ["", f"[{table}]"]
        lines += [f"{n} = {w:.{_DIGITS}f}" for n, w in zip(names, weights, strict=True)]
    return "\n".join(lines) + "\n"


async def main(*, write: bool) -> None:
    """Learn, print and write."""
    tables = {}
    async with aclosing(SentenceVectors(timeout_s=250)) as encoder:
        for table, used in (("by_words", None), ("with_meaning", encoder)):
            asked: list[Asked] = []
            for folder in FOLDERS:
                some = await asked_in(HERE / folder, used)
                asked += some
            for name, shares in left_out(asked).items():
                print(f"{table}, left-out, {name}: {shares}")
            tables[table] = (asked[0].names, learnt(asked))
    if write:
        WEIGHTS.write_text(written(tables), "utf-8")


if __name__ == "__main__":
    asyncio.run(main(write="--write" in sys.argv[1:]))
