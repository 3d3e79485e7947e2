"""What every test shares."""

import pytest
from hypothesis import settings

# Two cores do many things at once: how long one example takes says nothing about our code.
settings.register_profile("nekro", deadline=None)
settings.load_profile("nekro")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """NoneBot, Tortoise and NiceGUI run on asyncio, so that is what we test on."""
    return "asyncio"
