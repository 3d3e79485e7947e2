"""What every test shares."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.peers import postgres as postgres_peer

# Two cores do many things at once: how long one example takes says nothing about our code.
settings.register_profile("nekro", deadline=None)
settings.load_profile("nekro")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """NoneBot, Tortoise and NiceGUI run on asyncio, so that is what we test on."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_peer.PostgresServer]:
    """A PostgreSQL server; each test takes a database of its own from it."""
    if postgres_peer.programs() is None:
        pytest.skip("Debian's package postgresql is not installed")
    with postgres_peer.PostgresServer() as server:
        yield server
