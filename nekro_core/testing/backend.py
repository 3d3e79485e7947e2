"""The event loop of the tests: the bot's rooms run on asyncio."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """See anyio's own fixture of this name."""
    return "asyncio"
