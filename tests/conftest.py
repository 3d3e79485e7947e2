"""Settings and fixtures that all tests share."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.peers import postgres as postgres_peer

# This makes pytest show the compared values when a test of the adapter contract fails. Authors of
# adapters in other repositories use `-p nekro_core.testing` for this.
pytest.register_assert_rewrite("nekro_core.testing.adapter_contract")

# A bot fetches packages for its boxes with pip. Only the tests of these packages let a bot do that.
os.environ.setdefault("NEKRO_SANDBOX__PACKAGES", "false")

# The PostgreSQL servers of the tests have no TLS. asyncpg asks for TLS in a step of its own, and if
# a connection is cancelled in this step, nobody reads the error of its future. AnyIO's runner then
# raises the error in the next fixture, and all further tests of the process fail.
os.environ.setdefault("PGSSLMODE", "disable")

# Hypothesis sets no deadline, because other tests run at the same time and slow an example down. It
# draws the same examples each time, so a test fails only because of the change that is tested. make
# test ARGS=--hypothesis-profile=explore draws new examples.
_STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nekro", _STEADY, derandomize=True)
settings.register_profile("explore", _STEADY, derandomize=False)
settings.load_profile("nekro")


def pytest_collection_finish() -> None:
    """Exclude the 570 MB of loaded objects from garbage collection. They stay until the end of the
    process, and each full collection would search them for a second in the middle of a test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """All tests run on asyncio, because NoneBot, Tortoise and NiceGUI run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_peer.PostgresServer]:
    """A PostgreSQL server, on which each test makes its own database."""
    if postgres_peer.programs() is None:
        pytest.skip("Debian's package postgresql is not installed")
    with postgres_peer.PostgresServer() as server:
        yield server
