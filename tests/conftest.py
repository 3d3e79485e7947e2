"""What every test shares."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.peers import postgres as postgres_peer

# A promise of an adapter that fails is shown with its values; `-p nekro_core.testing` does it for
# third parties.
pytest.register_assert_rewrite("nekro_core.testing.adapter_contract")

# Two cores do many things at once: how long an example takes says nothing about our code. The same
# examples each time, so that who changes a line is not refused for another's; others are drawn with
# make test ARGS=--hypothesis-profile=explore.
_STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nekro", _STEADY, derandomize=True)
settings.register_profile("explore", _STEADY, derandomize=False)
settings.load_profile("nekro")


def pytest_collection_finish() -> None:
    """What is loaded by now stays, 570 MB of it: each full collection would go through it again,
    for a second, in the middle of somebody's test."""
    gc.collect()
    gc.freeze()


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
