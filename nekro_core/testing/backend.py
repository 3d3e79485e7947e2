"""Makes pytest run the async tests on asyncio, because the bot runs on asyncio."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Replaces anyio's fixture of this name."""
    return "asyncio"
