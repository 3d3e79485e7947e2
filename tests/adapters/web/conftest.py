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
