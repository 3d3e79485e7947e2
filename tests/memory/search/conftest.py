"""Fixtures: a store in a temporary folder, and chats whose messages can be searched."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nekro_core.chat import Author, ChatKey, Record, Segment, Sender, Text
from nekro_core.memory.search.finder import MessageFinder, MessageQuery
from nekro_core.memory.search.indexer import SearchIndexer
from nekro_core.store import Store

NOW = 1_700_000_000.0
"""The time of the search: 14 November 2023. Each message is written a minute after the one before
it."""
ROOM = ChatKey.parse("web-group_room")
PEOPLE = {"Mei": "10001", "Tom": "10002", "小雨": "10003", "さくら": "10004"}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Run each test on a SQLite file and, in ``make long``, also on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/nekro.sqlite3"
    return str(await request.getfixturevalue("postgres").database())


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as opened:
        yield opened


@dataclass
class Talk:
    """A chat in which people write."""

    store: Store
    key: ChatKey = ROOM
    now: float = NOW - 100_000.0

    async def say(self, who: str, *parts: str | Segment, **more: object) -> Record:
        """Store a message as the inbox does. ``bot`` and ``system`` are not people."""
        self.now += 60.0
        seq = self.store.messages.reserve()
        author = Author(who) if who in ("bot", "system") else Author.PERSON
        sender = Sender(PEOPLE.get(who, who), who) if author is Author.PERSON else Sender("")
        values: dict[str, object] = {
            "seq": seq,
            "chat_key": self.key,
            "author": author,
            "segments": tuple(Text(part) if isinstance(part, str) else part for part in parts),
            "time": self.now,
            "message_id": f"{self.key}-{seq}",
            "sender": sender,
        }
        record = Record(**{**values, **more})  # type: ignore[arg-type]
        await self.store.messages.add(
            record,
            unique_id=record.message_id,
            before=(
                *self.store.chats.seen(self.key),
                *self.store.users.seen(self.key.instance, sender),
            ),
        )
        return record

    async def chatter(self, count: int) -> None:
        """Store messages with words that no test searches for."""
        for number in range(count):
            await self.say(("Mei", "Tom")[number % 2], f"small talk number {number}, nothing more")

    async def index(self) -> None:
        """Put all messages but the newest 64 to 191 into the index."""
        await SearchIndexer(self.store).index_all()

    async def find(self, words: str = "", **query: object) -> list[str]:
        """Search, and return the texts that are found."""
        finder = MessageFinder(self.store, wall=lambda: NOW)
        found = await finder.find(self.key, MessageQuery(words=words, **query))  # type: ignore[arg-type]
        return texts(found.records)


def texts(records: Iterable[Record]) -> list[str]:
    """The texts of records."""
    return ["".join(p.text for p in each.segments if isinstance(p, Text)) for each in records]


@pytest.fixture
def talk(store: Store) -> Talk:
    return Talk(store)
