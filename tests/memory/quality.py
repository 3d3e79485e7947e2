"""Measures how well questions about long conversations are answered. For each question, some
messages are the evidence; the measure is the share of them among the first hits. ``set/README.md``
describes the format."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.memory.search.finder import MessageFinder, MessageQuery
from nekro_core.memory.search.indexer import SearchIndexer
from nekro_core.memory.search.meaning import MessageVectors, TextEncoder
from nekro_core.store import Store

FIRST = (5, 10, 20)
"""The numbers of first hits for which the shares are measured."""
_LATER_S = 3600.0
"""A question without a time is asked this many seconds after the last message."""
Shares = dict[str, dict[int, float]]
"""Maps each language, and ``all``, to a mapping: from a number of first hits to the mean share of
the evidence that is among them."""


async def measure(folder: Path, url: str, encoder: TextEncoder | None) -> Shares:
    """Ask all questions of a folder, each in the chat of its conversation.

    Args:
        folder: The folder with the files of the conversations.
        url: The database, which is empty.
        encoder: The sentence encoder; None to search by words alone.
    """
    found: dict[str, list[list[float]]] = defaultdict(list)
    async with Store.open(url) as store:
        for path in sorted(folder.glob("*.messages.jsonl")):
            key = ChatKey.parse(f"web-group_{path.name.partition('.')[0]}")
            messages = read_lines(path)
            numbers = await fill(store, key, messages)
            await SearchIndexer(store).index_all()
            for question in read_lines(path.with_name(path.name.replace("messages", "questions"))):
                asked = asked_at(question, messages)
                shares = await _ask(store, key, question, asked, numbers, encoder)
                found[question["lang"]].append(shares)
                found["all"].append(shares)
    return {
        language: dict(zip(FIRST, map(mean, zip(*shares, strict=True)), strict=True))
        for language, shares in sorted(found.items())
    }


async def _ask(
    store: Store,
    key: ChatKey,
    question: dict[str, Any],
    asked: float,
    numbers: dict[int, int],
    encoder: TextEncoder | None,
) -> list[float]:
    vectors = None if encoder is None else _vectors(encoder)
    # The encoder may take any time, because a busy machine must not change the result.
    finder = MessageFinder(store, vectors, zone=UTC, wall=lambda: asked, clock=lambda: 0.0)
    result = await finder.find(key, MessageQuery(words=question["q"], limit=max(FIRST)))
    hits = [numbers[each.seq] for each in result.records]
    return [mean(number in hits[:first] for number in question["evidence"]) for first in FIRST]


_made: dict[int, MessageVectors] = {}


def _vectors(encoder: TextEncoder) -> MessageVectors:
    """Return the vectors of an encoder. They cache the texts that were encoded."""
    return _made.setdefault(id(encoder), MessageVectors(encoder))


def asked_at(question: dict[str, Any], messages: Sequence[dict[str, Any]]) -> float:
    """Return the time at which a question is asked, in seconds since 1970."""
    if "at" in question:
        return seconds(question["at"])
    return seconds(messages[-1]["at"]) + _LATER_S


async def fill(store: Store, key: ChatKey, messages: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Store the messages. Return a mapping from the number of a message in the store to its number
    in the file."""
    numbers: dict[int, int] = {}
    for message in messages:
        record = Record(
            seq=store.messages.reserve(),
            chat_key=key,
            author=Author.PERSON,
            segments=(Text(message["text"]),),
            time=seconds(message["at"]),
            message_id=f"{key}-{message['n']}",
            sender=Sender(f"id of {message['who']}", message["who"]),
        )
        numbers[record.seq] = message["n"]
        await store.messages.add(record, unique_id=record.message_id, before=store.chats.seen(key))
    return numbers


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def seconds(text: str) -> float:
    """Return a time of the files in seconds since 1970."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
