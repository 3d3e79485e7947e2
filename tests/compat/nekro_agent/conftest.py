"""Fixtures for the tests of plugins that were written for nekro-agent."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from nekro_core.compat.nekro_agent.context import LegacyAgentCtx
from nekro_core.compat.nekro_agent.legacy_message import LegacyChatMessage
from nekro_core.plugins.host.kinds import LegacySupport
from nekro_core.testing import Bot
from tests.plugins.world import World

PLUGINS = Path(__file__).parent / "plugins"
OpenBot = Callable[..., AbstractAsyncContextManager[Bot]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(
        tmp_path, LegacySupport(make_context=LegacyAgentCtx, message_form=LegacyChatMessage.of)
    )


@pytest.fixture
def bot_with(tmp_path: Path) -> OpenBot:
    """A function that opens a whole bot with one plugin from ``plugins/`` beside this file."""

    def open_bot(plugin: str, **options: Any) -> AbstractAsyncContextManager[Bot]:
        path = PLUGINS / plugin
        source = path if path.is_dir() else path.with_suffix(".py")
        return partial(Bot.open, tmp_path / "data", source)(**options)

    return open_bot


def visitor(application: Any) -> httpx.AsyncClient:
    """A client that needs no login."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url="http://bot.test", timeout=10
    )
