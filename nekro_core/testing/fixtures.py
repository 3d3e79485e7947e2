"""Defines the fixtures for plugin tests, and makes pytest collect a plugin's folder correctly."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nekro_core.testing import backend
from nekro_core.testing.bot import Bot, Chat
from nekro_core.testing.clock import FakeClock

_OPTION = "nekro_plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``nekro_plugin`` to ``pytest.ini``.

    Args:
        parser: pytest's option parser. The default of ``nekro_plugin`` is ``.``.
    """
    parser.addini(_OPTION, "the plugin under test, from pytest.ini's folder", default=".")


def pytest_configure(config: pytest.Config) -> None:
    """Make the async tests run on asyncio. If two pytest plugins define the same fixture, pytest
    uses the fixture that was registered last. Anyio's plugin also defines the fixture
    ``anyio_backend``, and is registered after this package. So the fixture of nekro-core is in a
    separate plugin (`nekro_core.testing.backend`), which is registered here, after anyio's plugin.

    Args:
        config: pytest's configuration. Its plugin manager gets the plugin.
    """
    config.pluginmanager.register(backend, backend.__name__)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Make pytest collect the folder of the plugin under test as a plain folder. If pytest
    collected it as a package, it would import the plugin without a bot.

    Args:
        path: The folder that pytest is about to collect.
        parent: The collector of the parent directory.

    Returns:
        A plain folder for the folder of the plugin under test; None for any other folder, which
        pytest then collects as usual.
    """
    if path == _plugin_under_test(parent.config):
        return pytest.Dir.from_parent(parent, path=path)
    return None


@pytest.fixture(scope="session")
def plugin_path(pytestconfig: pytest.Config) -> Path:
    """The plugin under test: the path in ``nekro_plugin`` of ``pytest.ini``, by default the folder
    of ``pytest.ini``. To test several plugins, override this fixture in each plugin's folder.

    Args:
        pytestconfig: pytest's configuration.

    Returns:
        The absolute path of the plugin's file or folder.
    """
    return _plugin_under_test(pytestconfig)


@pytest.fixture
def bot_settings() -> dict[str, Any]:
    """The settings of the bot under test that differ from the defaults. Override this fixture to
    change settings.

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
    """A running bot with the plugin under test. Each test gets a new bot.

    Args:
        tmp_path: pytest's temporary folder; the bot's data is in ``data`` there.
        plugin_path: The plugin under test.
        clock: The bot's clock.
        bot_settings: Fields of the bot's settings.

    Yields:
        The running bot. It is stopped after the test.

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
