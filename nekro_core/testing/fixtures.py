"""Defines the fixtures, and configures pytest for a folder that is a plugin."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nekro_core.testing import backend
from nekro_core.testing.bot import Bot, Chat
from nekro_core.testing.clock import FakeClock

_OPTION = "nekro_plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option, for ``pytest.ini``.

    Args:
        parser: pytest's parser of options; it gets ``nekro_plugin``, whose default is ``.``.
    """
    parser.addini(_OPTION, "the plugin under test, from pytest.ini's folder", default=".")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the event loop. This registers a separate plugin: of two fixtures with one name pytest
    uses the one registered later, and anyio's is registered after ours.

    Args:
        config: pytest's configuration, whose plugin manager gets the choice of the loop.
    """
    config.pluginmanager.register(backend, backend.__name__)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a plugin's folder as a plain folder. As a package, pytest would import it without a
    bot.

    Args:
        path: The folder that pytest is about to collect.
        parent: The collector of the folder above.

    Returns:
        A plain folder for the plugin under test; None for any other, which pytest then collects as
        usual.
    """
    if path == _plugin_under_test(parent.config):
        return pytest.Dir.from_parent(parent, path=path)
    return None


@pytest.fixture(scope="session")
def plugin_path(pytestconfig: pytest.Config) -> Path:
    """The plugin under test: the folder of ``pytest.ini``, or what its ``nekro_plugin`` names. A
    conftest with several plugins has a fixture of this name in each folder.

    Args:
        pytestconfig: pytest's configuration.

    Returns:
        The absolute path of the plugin's file or folder.
    """
    return _plugin_under_test(pytestconfig)


@pytest.fixture
def bot_settings() -> dict[str, Any]:
    """Fields of the bot's settings that a test wants otherwise; override it to change them.

    Returns:
        Fields of `nekro_core.app.settings.Settings` by name; none unless overridden.
    """
    return {}


@pytest.fixture
def clock() -> FakeClock:
    """The bot's clock.

    Returns:
        A clock that begins at `nekro_core.testing.clock.BEGINNING`.
    """
    return FakeClock()


@pytest.fixture
async def bot(
    tmp_path: Path, plugin_path: Path, clock: FakeClock, bot_settings: dict[str, Any]
) -> AsyncIterator[Bot]:
    """A bot with the plugin, fresh for each test.

    Args:
        tmp_path: pytest's temporary folder; the bot's data is in ``data`` there.
        plugin_path: The plugin under test.
        clock: The clock that the bot goes by.
        bot_settings: Fields of the bot's settings.

    Yields:
        The running bot. It is ended after the test.

    Raises:
        PluginNotLoaded: The plugin cannot be used; the message says why.
    """
    async with Bot.open(
        tmp_path / "data", plugin_path, clock=clock, settings=bot_settings
    ) as running:
        yield running


@pytest.fixture
def chat(bot: Bot) -> Chat:
    """A private chat with the bot.

    Args:
        bot: The bot under test.

    Returns:
        The private chat with Lin (``private_lin``).
    """
    return bot.chat()


def _plugin_under_test(config: pytest.Config) -> Path:
    return (config.rootpath / str(config.getini(_OPTION))).resolve()
