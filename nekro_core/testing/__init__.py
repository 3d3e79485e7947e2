"""Provides pytest fixtures for plugin tests, in which a test reads like a conversation.

A plugin's ``pytest.ini`` (written by `nekro plugin new`) switches them on::

    [pytest]
    addopts = -p nekro_core.testing
    anyio_mode = auto

A test gives the text that a person writes and the code that the model answers with::

    async def test_two_dice(chat: Chat) -> None:
        said = await chat.ask("roll two", code="shake(count=2)")
        assert len(said) == 1

Code runs in a real box, and tools and deliveries run as in a real bot. Only the model, the platform
and the clock are simulated. No network is needed.
"""

import sys

from nekro_core.plugins.host.links import NoPlugin
from nekro_core.testing.bot import Bot, Chat, PluginNotLoaded
from nekro_core.testing.clock import BEGINNING, FakeClock
from nekro_core.testing.platform import Sent, TestPlatform

# The fixtures need pytest, which takes 0.1 s to import and may be missing. `nekro plugin check` and
# `run` use this package without it.
if "pytest" in sys.modules:
    from nekro_core.testing.fixtures import (
        bot,
        bot_settings,
        chat,
        clock,
        plugin_path,
        pytest_addoption,
        pytest_collect_directory,
        pytest_configure,
    )

__all__ = [
    "BEGINNING",
    "Bot",
    "Chat",
    "FakeClock",
    "NoPlugin",
    "PluginNotLoaded",
    "Sent",
    "TestPlatform",
    "bot",
    "bot_settings",
    "chat",
    "clock",
    "plugin_path",
    "pytest_addoption",
    "pytest_collect_directory",
    "pytest_configure",
]
