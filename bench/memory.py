"""Measures how fast and how well messages are found, and how much the index slows down the storing
of messages.

With ``--small``, the chat has 100,000 messages instead of 1,000,000. The figures of quality are
measured on the conversations of ``tests/memory/development``, on which the weights were chosen. So
these figures show whether a change makes the search worse. They do not show how good the search is
for other conversations.
"""

import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing
from itertools import accumulate
from pathlib import Path

from bench.figure import Figure
from nekro_core.chat import ChatKey, ChatMessage, Sender, Text, encode_segments
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.memory.search.finder import MessageFinder, MessageQuery
from nekro_core.memory.search.indexer import SearchIndexer
from nekro_core.memory.search.meaning import MessageVectors
from nekro_core.memory.search.open import MessageSearchService
from nekro_core.store import Store
from nekro_core.store.database import Value
from nekro_core.store.messages import INSERT
from nekro_core.store.search_blocks import BLOCK, VECTOR_BYTES
from nekro_core.tools.discovery import SentenceVectors
from tests.e2e.bot_process import ROOT
from tests.memory.quality import measure

_CONVERSATIONS = ROOT / "tests/memory/development"
_LARGE = 1_000_000
_SMALL = 100_000
_CHAT = ChatKey.parse("bench-group_1")
_WORDS_OF_LANGUAGE = 30_000
_SEARCHES = 200
_ARRIVING = 10_000
"""Number of messages of one round."""
_ARRIVING_CHATS = 10
_ROUNDS = 5
_AT_ONCE = 500
"""Number of messages that arrive at once, as in a burst of messages in a hundred groups."""


async def figures(*, small: bool = False) -> list[Figure]:
    """Return the figures of this part."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        found += await _quality(Path(folder))
        found += await _ingest(Path(folder))
        found += await _speed(Path(folder), _SMALL if small else _LARGE)
    return found


async def _quality(folder: Path) -> list[Figure]:
    encoder = SentenceVectors(timeout_s=250)
    try:
        words = await measure(_CONVERSATIONS, f"sqlite://{folder}/words.sqlite3", None)
        meaning = await measure(_CONVERSATIONS, f"sqlite://{folder}/meaning.sqlite3", encoder)
    finally:
        await encoder.aclose()
    return [
        Figure(
            name=f"memory: evidence among the first {first}, {language}",
            unit="of 1",
            p50=meaning[language][first],
            floor=words[language][first],
            floor_name="by words alone",
            more_is_better=True,
        )
        for language in meaning
        for first in (10, 20)
    ]


class _Language:
    """Makes sentences of invented words. Some words are common and most are rare, as in a real
    language: the word of rank n is n times as rare as the first word (Zipf's law)."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        letters, syllables = "bdfgklmnprstvz", "aeiou"
        words: dict[str, None] = {}
        while len(words) < _WORDS_OF_LANGUAGE:
            size = self._chance.randint(2, 4)
            pairs = zip(
                self._chance.choices(letters, k=size),
                self._chance.choices(syllables, k=size),
                strict=True,
            )
            words["".join(map("".join, pairs))] = None
        self.words = list(words)
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))

    def sentence(self) -> str:
        """Make a sentence of 4 to 16 words."""
        size = self._chance.randint(4, 16)
        return " ".join(self._chance.choices(self.words, cum_weights=self._weights, k=size))

    def question(self) -> str:
        """Make a question: three words of a sentence, and two rare words."""
        common = self._chance.choices(self.words, cum_weights=self._weights, k=3)
        return " ".join(common + self._chance.sample(self.words[200:5000], 2))


async def _speed(folder: Path, messages: int) -> list[Figure]:
    path = folder / "large.sqlite3"
    language = _Language(1)
    async with Store.open(f"sqlite://{path}") as store:
        await store.accounts.bind("bench", "bot")
    _fill(path, language, messages)
    async with Store.open(f"sqlite://{path}") as store, AsyncExitStack() as stack:
        begun = time.perf_counter()
        await SearchIndexer(store).index_all()
        indexed = time.perf_counter() - begun
        _put_vectors(path)
        encoder = SentenceVectors()
        stack.push_async_callback(encoder.aclose)
        by_words = MessageFinder(store)
        by_meaning = MessageFinder(store, MessageVectors(encoder))
        questions = [language.question() for _ in range(_SEARCHES)]
        words = await _times(by_words, questions)
        meaning = await _times(by_meaning, questions)
        listed = await _times(by_words, [""] * _SEARCHES, since="1970-01-02")
        plain = await _plain(store)
        size = path.stat().st_size
    with closing(sqlite3.connect(path)) as database:
        ((pages,),) = database.execute("SELECT SUM(LENGTH(data)) FROM search_pages")
    floor = "the 10 newest, plain SELECT"
    name = f"memory: search among {messages:,} messages"
    return [
        Figure.of(f"{name}, by words", "ms", words, plain, floor, 10.0),
        Figure.of(f"{name}, with meaning", "ms", meaning, plain, floor, 10.0),
        Figure.of(f"{name}, the newest since a date", "ms", listed, plain, floor),
        Figure(
            name="memory: indexing an old database",
            unit="messages/s",
            p50=messages / indexed,
            more_is_better=True,
        ),
        Figure(
            name="memory: words of the index, for 1,000 messages",
            unit="kB",
            p50=pages / messages,
            floor=size / messages,
            floor_name="the whole file",
        ),
    ]


async def _times(finder: MessageFinder, questions: Sequence[str], since: str = "") -> list[float]:
    for question in questions[:10]:
        await finder.find(_CHAT, MessageQuery(words=question, since=since))
    samples = []
    for question in questions:
        begun = time.perf_counter()
        await finder.find(_CHAT, MessageQuery(words=question, since=since))
        samples.append((time.perf_counter() - begun) * 1e3)
    return samples


async def _plain(store: Store) -> float:
    samples = []
    for _ in range(_SEARCHES):
        begun = time.perf_counter()
        await store.messages.newest(_CHAT, 10)
        samples.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(samples)


def _fill(path: Path, language: _Language, messages: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN")
        database.execute(
            "INSERT INTO chats (chat_key, instance, first_seen, handled_seq, name) "
            "VALUES (?, 'bench', 0, 0, '')",
            (str(_CHAT),),
        )
        database.executemany(INSERT.sql(1).partition(" ON CONFLICT")[0], _rows(language, messages))
        database.execute("COMMIT")


def _rows(language: _Language, messages: int) -> Iterator[tuple[Value, ...]]:
    for seq in range(1, messages + 1):
        number = seq % 200
        yield (
            *(seq, str(_CHAT), "bench", f"m{seq}", f"m{seq}", "person"),
            *(f"u{number}", f"person {number}", "member"),
            encode_segments((Text(language.sentence()),)),
            *(seq * 30.0, False, False, False, False, "", "sent"),
        )


def _put_vectors(path: Path) -> None:
    """Give every message a vector of random numbers. Encoding a million messages would take half an
    hour, and the values of the vectors do not change how long a search takes."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE search_blocks SET encoded = 1, vectors = randomblob(?)",
            (BLOCK * VECTOR_BYTES,),
        )


async def _ingest(folder: Path) -> list[Figure]:
    """Measure how fast messages are stored. Rounds without and with the index alternate, so that a
    busy minute of the machine affects both."""
    without, indexed, complete = [], [], []
    for number in range(_ROUNDS):
        without.append((await _round(folder / f"a{number}.sqlite3", number, index=False))[0])
        rate, until_indexed = await _round(folder / f"b{number}.sqlite3", number, index=True)
        indexed.append(rate)
        complete.append(until_indexed)
    floor = statistics.median(without)
    return [
        Figure(
            name="memory: messages accepted while indexed",
            unit="/s",
            p50=statistics.median(indexed),
            floor=floor,
            floor_name="without the index, same run",
            target=0.85 * floor,
            more_is_better=True,
        ),
        Figure(
            name="memory: messages accepted and wholly indexed",
            unit="/s",
            p50=statistics.median(complete),
            floor=floor,
            floor_name="without the index, same run",
            more_is_better=True,
        ),
    ]


async def _round(path: Path, seed: int, *, index: bool) -> tuple[float, float]:
    """Return two rates in messages per second: until all messages are accepted, and until all are
    indexed."""
    language = _Language(seed)
    messages = [_message(number, language.sentence()) for number in range(_ARRIVING)]
    async with Store.open(f"sqlite://{path}") as store, AsyncExitStack() as stack:
        await store.accounts.bind("bench", "bot")
        inbox = Inbox(store, Broadcast())
        if index:
            search = await stack.enter_async_context(MessageSearchService.open(store, None))
        begun = time.perf_counter()
        for first in range(0, _ARRIVING, _AT_ONCE):
            some = messages[first : first + _AT_ONCE]
            await asyncio.gather(*(inbox.accept(inbox.stamp(each)) for each in some))
        accepted = time.perf_counter() - begun
        if index:
            await search.indexer.index_arrived()
        return _ARRIVING / accepted, _ARRIVING / (time.perf_counter() - begun)


def _message(number: int, text: str) -> ChatMessage:
    return ChatMessage(
        chat_key=ChatKey.parse(f"bench-group_{number % _ARRIVING_CHATS}"),
        message_id=f"m{number}",
        sender=Sender(str(number % 50), f"person {number % 50}"),
        segments=(Text(text),),
        time=time.time(),
        account="bot",
    )
