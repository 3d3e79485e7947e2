"""Starts the web site with a fake bot behind it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.web.running import Web, web


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Web]:
    """The HTTP API with a bot in memory behind it, new for each test."""
    async with web(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
async def table(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Web]:
    """One HTTP API for all rows of a module's tables. Tests that use it must not store anything."""
    async with web(tmp_path_factory.mktemp("table")) as running:
        yield running
