"""Starts the HTTP API for the tests of the web chat, with a fake bot behind it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.web.running import Web, web


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Web]:
    """Start the HTTP API with a bot in memory behind it. Each test gets a new one."""
    async with web(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
async def table(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Web]:
    """Start one HTTP API for all parametrized tests of a module. Tests that use it must not store
    anything."""
    async with web(tmp_path_factory.mktemp("table")) as running:
        yield running
