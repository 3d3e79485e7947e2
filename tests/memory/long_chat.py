"""Joins the conversations of all folders into one chat of 20,000 messages, and measures how well
the search of that chat finds the evidence: the messages that answer the questions about the
conversations.

    python -m tests.memory.long_chat           print the share of the evidence in the first hits

This takes some minutes, most of them to encode the messages.

The conversations stand one after another, in a random order. Each message keeps its own time,
because the questions name dates. Between the conversations are messages of filler. Each is made
from the first half of one message and the second half of another message of the same language.
Messages that are the evidence of a question are not used for filler. So the filler has the words
and names of the conversations, but answers no question.
"""

import asyncio
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from statistics import mean
from typing import Any

import anyio

from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.memory.search.encoding import MessageEncoding
from nekro_core.memory.search.finder import MessageFinder, MessageQuery
from nekro_core.memory.search.indexer import SearchIndexer
from nekro_core.memory.search.meaning import MessageVectors
from nekro_core.store import Store
from nekro_core.tools.discovery import SentenceVectors
from tests.memory.quality import FIRST, Shares, asked_at, read_lines, seconds

HERE = Path(__file__).parent
FOLDERS = ("development", "set", "strangers")
KEY = ChatKey.parse("web-group_long")
_SIZE = 20_000
_RUN = 400
"""Number of messages of filler in a row."""
_PAUSE_S = 40.0
_AT_ONCE = 500

Message = dict[str, Any]


@dataclass(frozen=True)
class Conversation:
    """A conversation of one of the folders, and the questions about it."""

    name: str
    messages: Sequence[Message]
    questions: Sequence[Message]

    @property
    def language(self) -> str:
        """``en``, ``zh`` or ``ja``."""
        return self.name[:2]


def conversations_of(folders: Sequence[Path]) -> list[Conversation]:
    """Read the conversations of the folders."""
    return [
        Conversation(
            f"{path.name.partition('.')[0]} of {folder.name}",
            read_lines(path),
            read_lines(path.with_name(path.name.replace("messages", "questions"))),
        )
        for folder in folders
        for path in sorted(folder.glob("*.messages.jsonl"))
    ]


async def fill_long(
    store: Store, conversations: Sequence[Conversation], size: int
) -> dict[int, tuple[str, int]]:
    """Store the conversations and filler, together at least ``size`` messages, and index them.
    Return a mapping from the number of a message in the store to the name of its conversation and
    its number in that conversation. Filler has an empty name and the number 0."""
    chance = random.Random(39)
    parts = [(each.name, each.messages) for each in conversations]
    missing = size - sum(len(messages) for _, messages in parts)
    filler = _filler(conversations, chance)
    parts += [("", [next(filler) for _ in range(_RUN)]) for _ in range(0, missing, _RUN)]
    chance.shuffle(parts)
    numbers: dict[int, tuple[str, int]] = {}
    for name, messages in parts:
        records = [_record(store, each) for each in messages]
        for record, message in zip(records, messages, strict=True):
            numbers[record.seq] = (name, message.get("n", 0))
        for begin in range(0, len(records), _AT_ONCE):
            async with anyio.create_task_group() as tasks:
                for record in records[begin : begin + _AT_ONCE]:
                    tasks.start_soon(_add, store, record)
    await SearchIndexer(store).index_all()
    return numbers


async def encode_long(store: Store, vectors: MessageVectors) -> None:
    """Encode all messages of the chat, as the background task does after the first search."""
    await MessageEncoding(store, vectors, clock=lambda: 0.0).encode_chat(KEY)


async def measure_long(
    store: Store,
    conversations: Sequence[Conversation],
    numbers: dict[int, tuple[str, int]],
    vectors: MessageVectors | None,
) -> Shares:
    """Ask all questions in the long chat, and return the shares as `quality.measure` does."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    for conversation in conversations:
        for question in conversation.questions:
            asked = asked_at(question, conversation.messages)
            finder = MessageFinder(store, vectors, zone=UTC, wall=_at(asked))
            result = await finder.find(KEY, MessageQuery(words=question["q"], limit=max(FIRST)))
            hits = [numbers[each.seq] for each in result.records]
            wanted = [(conversation.name, number) for number in question["evidence"]]
            shares = [mean(each in hits[:first] for each in wanted) for first in FIRST]
            for name in ("all", question["lang"], conversation.name.rpartition(" ")[2]):
                found[name].append(shares)
    return {
        name: dict(zip(FIRST, map(mean, zip(*shares, strict=True)), strict=True))
        for name, shares in sorted(found.items())
    }


def _at(time: float) -> Callable[[], float]:
    return lambda: time


def _filler(conversations: Sequence[Conversation], chance: random.Random) -> Iterator[Message]:
    """Yield messages of filler without end. All messages of a run (`_RUN` messages) have the same
    language, and their times are `_PAUSE_S` seconds apart."""
    plain: dict[str, list[Message]] = defaultdict(list)
    for conversation in conversations:
        evidence = {n for question in conversation.questions for n in question["evidence"]}
        plain[conversation.language] += (
            each for each in conversation.messages if each["n"] not in evidence
        )
    languages = sorted(plain)
    while True:
        some = plain[chance.choice(languages)]
        begun = seconds(chance.choice(some)["at"])
        for number in range(_RUN):
            first, second = chance.sample(some, 2)
            yield {
                "who": first["who"],
                "time": begun + number * _PAUSE_S,
                "text": _joined(first["text"], second["text"]),
            }


def _joined(first: str, second: str) -> str:
    """Join the first half of a text and the second half of another."""
    begin, end = first[: len(first) // 2], second[len(second) // 2 :]
    if " " in first and " " in second:
        begin, end = begin.rpartition(" ")[0] or begin, end.partition(" ")[2] or end
        return f"{begin} {end}"
    return begin + end


def _record(store: Store, message: Message) -> Record:
    return Record(
        seq=(seq := store.messages.reserve()),
        chat_key=KEY,
        author=Author.PERSON,
        segments=(Text(message["text"]),),
        time=message["time"] if "time" in message else seconds(message["at"]),
        message_id=f"{KEY}-{seq}",
        sender=Sender(f"id of {message['who']}", message["who"]),
    )


async def _add(store: Store, record: Record) -> None:
    await store.messages.add(record, unique_id=record.message_id, before=store.chats.seen(KEY))


async def main() -> None:
    """Measure the shares of a search by words alone and of one with the encoder, and print them."""
    conversations = conversations_of([HERE / each for each in FOLDERS])
    with tempfile.TemporaryDirectory() as folder:
        async with (
            aclosing(SentenceVectors(timeout_s=250)) as encoder,
            Store.open(f"sqlite://{folder}/long.sqlite3") as store,
        ):
            numbers = await fill_long(store, conversations, _SIZE)
            vectors = MessageVectors(encoder)
            await encode_long(store, vectors)
            print(f"{len(numbers):,} messages")
            for used, name in ((None, "by words"), (vectors, "with meaning")):
                shares = await measure_long(store, conversations, numbers, used)
                for group, each in shares.items():
                    print(f"{name}, {group}: {each}")


if __name__ == "__main__":
    asyncio.run(main())
