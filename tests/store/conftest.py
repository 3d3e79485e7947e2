"""Fixtures: a store in a temporary folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.chat import Author, ChatKey, Record, Sender, Text
from nekro_core.store import Store, StoreSettings
from nekro_core.store.messages import with_final_seq
from tests.peers.postgres import PostgresServer


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/nekro.sqlite3"


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> str:
    return await postgres.database()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on a SQLite file and, in ``make long``, on PostgreSQL, alone and as a node."""
    parametrize_engines(metafunc)


def parametrize_engines(metafunc: pytest.Metafunc) -> None:
    """Give the fixture ``engine`` its values. A test that opens its stores itself decides itself
    whether they are nodes."""
    if "engine" in metafunc.fixturenames:
        on_server = ("postgres", "node") if "store" in metafunc.fixturenames else ("postgres",)
        slow = (pytest.param(each, marks=pytest.mark.long) for each in on_server)
        metafunc.parametrize("engine", ["sqlite", *slow])


@pytest.fixture
async def url(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> str:
    if engine == "sqlite":
        return f"sqlite://{tmp_path}/nekro.sqlite3"
    return await request.getfixturevalue("postgres").database()


@pytest.fixture
def store_settings(engine: str) -> StoreSettings:
    """The settings of the fixture ``store``: whether it is a node."""
    return node("one") if engine == "node" else StoreSettings()


@pytest.fixture
async def store(url: str, store_settings: StoreSettings, clock: Clock) -> AsyncIterator[Store]:
    async with Store.open(url, store_settings, clock=clock) as opened:
        yield opened


GROUP = ChatKey.parse("onebot_v11-group_30003")
OTHER = ChatKey.parse("web-private_lin")


def record(store: Store, text: str = "hello", *, key: ChatKey = GROUP, **fields: object) -> Record:
    values: dict[str, object] = {
        "seq": store.messages.reserve(),
        "chat_key": key,
        "author": Author.PERSON,
        "segments": (Text(text),),
        "time": 1_000.0,
        "sender": Sender("10001", "Lin"),
    }
    return Record(**{**values, **fields})  # type: ignore[arg-type]


async def say(
    store: Store, text: str = "hello", *, key: ChatKey = GROUP, **fields: object
) -> Record:
    """Store a message as the inbox does."""
    said = record(store, text, key=key, **fields)
    unique = said.message_id or None
    await store.messages.add(said, unique_id=unique, before=store.chats.seen(key))
    return with_final_seq(said)


def node(name: str) -> StoreSettings:
    """The settings of a process that shares its database with others."""
    return StoreSettings(node=name)
