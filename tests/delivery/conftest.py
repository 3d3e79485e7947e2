"""Fixtures: an inbox and an outbox on a store in a temporary folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.chat import ChatKey
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.media.converter import MediaConverter
from nekro_core.store import Store, StoreSettings
from tests.store.conftest import node, parametrize_engines

from .fakes import FakeAdapter, FullDisk

GROUP = ChatKey.parse("fake-group_1")
OTHER = ChatKey.parse("fake-group_2")

QUICK = DeliverySettings(retry_s=0.01, call_s=30.0)
ONLY_WHEN_NUDGED = DeliverySettings(retry_s=3600.0, call_s=30.0)
"""The outbox retries only when a test asks for a retry. A retry sets the row to `sending` for a
moment, which would disturb a test that looks at pending rows."""


class Clock:
    """A clock whose time changes only when a test sets it."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session")
async def converter() -> AsyncIterator[MediaConverter]:
    """One converter for all tests. Its process starts with the first picture."""
    async with MediaConverter() as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
async def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A migrated database file. It is made once, because a migration takes longer than most of
    these tests."""
    path = tmp_path_factory.mktemp("database") / "empty.sqlite3"
    async with Store.open(f"sqlite://{path}"):
        pass
    return path.read_bytes()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """See `parametrize_engines`."""
    parametrize_engines(metafunc)


@pytest.fixture
async def url(
    request: pytest.FixtureRequest, engine: str, tmp_path: Path, empty_database: bytes
) -> str:
    if engine != "sqlite":
        return await request.getfixturevalue("postgres").database()
    path = tmp_path / "nekro.sqlite3"
    path.write_bytes(empty_database)
    return f"sqlite://{path}"


@pytest.fixture
def store_settings(engine: str) -> StoreSettings:
    """The settings of the fixture ``store``: whether it is a node."""
    return node("one") if engine == "node" else StoreSettings()


@pytest.fixture
async def store(url: str, store_settings: StoreSettings, clock: Clock) -> AsyncIterator[Store]:
    async with Store.open(url, store_settings, clock=clock) as opened:
        await opened.accounts.bind("fake", "bot")
        yield opened


@pytest.fixture
def activity() -> Broadcast:
    return Broadcast()


@pytest.fixture
def inbox(store: Store, activity: Broadcast, clock: Clock) -> Inbox:
    return Inbox(store, activity, wall=clock)


@pytest.fixture
def adapter() -> FakeAdapter:
    return FakeAdapter()


@pytest.fixture
async def outbox(
    store: Store, activity: Broadcast, adapter: FakeAdapter, clock: Clock
) -> AsyncIterator[Outbox]:
    async with Outbox(store, {"fake": adapter}, activity, QUICK, clock=clock) as opened:
        yield opened


@pytest.fixture
def disk(store: Store) -> FullDisk:
    """The store's deliveries. As long as ``full`` is set, no state can be written."""
    disk = FullDisk(store)
    store.deliveries = disk  # type: ignore[assignment]
    return disk
