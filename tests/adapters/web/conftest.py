"""Who the tests of the web chat talk to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.web.running import Web, web


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Web]:
    """The HTTP API with a bot in memory behind it."""
    async with web(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
async def table(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Web]:
    """The same for all rows of a module's tables, which must not leave anything behind."""
    async with web(tmp_path_factory.mktemp("table")) as running:
        yield running
