"""Makes pytest run the async tests on asyncio, because the bot runs on asyncio."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return ``asyncio``. This fixture replaces anyio's fixture with the same name."""
    return "asyncio"
