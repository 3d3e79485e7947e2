"""The fixtures, and what pytest must be told for a folder that is a plugin."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nekro_core.testing import backend
from nekro_core.testing.bot import Bot, Chat
from nekro_core.testing.clock import FakeClock

_OPTION = "nekro_plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option, for ``pytest.ini``."""
    parser.addini(_OPTION, "the plugin under test, from pytest.ini's folder", default=".")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the event loop. As a plugin of its own: of two fixtures with one name the one counts
    that came later, and anyio's comes after ours."""
    config.pluginmanager.register(backend, backend.__name__)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A plugin's folder is no package of tests: pytest would import it, away from any bot."""
    if path == _plugin_under_test(parent.config):
        return pytest.Dir.from_parent(parent, path=path)
    return None


@pytest.fixture(scope="session")
def plugin_path(pytestconfig: pytest.Config) -> Path:
    """The plugin under test: the folder of ``pytest.ini``, or what its ``nekro_plugin`` names. A
    conftest with several plugins has a fixture of this name in each folder."""
    return _plugin_under_test(pytestconfig)


@pytest.fixture
def bot_settings() -> dict[str, Any]:
    """Fields of the bot's settings that a test wants otherwise; override it to change them."""
    return {}


@pytest.fixture
def clock() -> FakeClock:
    """The bot's clock."""
    return FakeClock()


@pytest.fixture
async def bot(
    tmp_path: Path, plugin_path: Path, clock: FakeClock, bot_settings: dict[str, Any]
) -> AsyncIterator[Bot]:
    """A bot with the plugin, fresh for each test."""
    async with Bot.open(
        tmp_path / "data", plugin_path, clock=clock, settings=bot_settings
    ) as running:
        yield running


@pytest.fixture
def chat(bot: Bot) -> Chat:
    """A private chat with the bot."""
    return bot.chat()


def _plugin_under_test(config: pytest.Config) -> Path:
    return (config.rootpath / str(config.getini(_OPTION))).resolve()
