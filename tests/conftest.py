"""What every test shares."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """NoneBot, Tortoise and NiceGUI run on asyncio, so that is what we test on."""
    return "asyncio"
