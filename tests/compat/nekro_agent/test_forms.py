"""The configurations of plugins for Nekro Agent are shown as forms and changed while the bot
runs."""

import shutil
from pathlib import Path

import pytest
import yaml

from nekro_core.plugins.configuration.configurations import PluginConfigurations
from nekro_core.testing import Bot

pytestmark = [pytest.mark.anyio, pytest.mark.long]

TESTS = Path(__file__).parent
EVERY = sorted(
    each
    for folder in ("wild", "fresh", "plugins")
    for each in (TESTS / folder / "plugins" if folder != "plugins" else TESTS / folder).iterdir()
    if each.suffix == ".py" and "(ConfigBase)" in each.read_text("utf-8")
)


async def test_lists_tables_and_secrets_of_an_unknown_plugin_are_changed(tmp_path: Path) -> None:
    plugin = shutil.copy(TESTS / "fresh" / "plugins" / "city_weather.py", tmp_path)
    async with Bot.open(tmp_path / "data", Path(plugin)) as bot:
        configurations = PluginConfigurations(bot.app.plugins)
        form = await configurations.form(bot.info.key)
        fields = {each.name: each for each in form.fields}
        assert {name: each.kind.value for name, each in fields.items()} == {
            "API_KEY": "secret", "SOURCES": "list", "ALIASES": "table", "UNIT": "choice",
            "TIMEOUT": "number", "BLOCKED": "list",
        }  # fmt: skip
        assert (fields["API_KEY"].title, fields["API_KEY"].placeholder) == ("API 密钥", "sk-...")
        sources = fields["SOURCES"].item
        assert sources
        assert [each.name for each in sources.fields] == ["name", "base_url", "enabled"]
        sent = {
            "API_KEY": "sk-1",
            "SOURCES": [{"name": "spare", "base_url": "http://127.0.0.1:2", "enabled": False}],
            "ALIASES": {"帝都": "北京"},
        }
        change = await configurations.write(bot.info.key, sent, expected=form.revision)
        assert "sk-1" not in repr(change)
        config = bot.plugin.get_config()
        assert (config.API_KEY, config.SOURCES[0].name, config.ALIASES) == (
            "sk-1", "spare", {"帝都": "北京"},
        )  # fmt: skip
        stored = yaml.safe_load(bot.plugin.config_path.read_text("utf-8"))
        assert stored["SOURCES"][0]["enabled"] is False


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("plugin", EVERY, ids=lambda path: path.stem)
async def test_a_form_that_is_saved_unchanged_is_accepted(plugin: Path, tmp_path: Path) -> None:
    """If a form is written back as it was shown, nothing changes."""
    copy = Path(shutil.copy(plugin, tmp_path))
    async with Bot.open(tmp_path / "data", copy) as bot:
        configurations = PluginConfigurations(bot.app.plugins)
        form = await configurations.form(bot.info.key)
        change = await configurations.write(bot.info.key, form.values, expected=form.revision)
        assert change.changes == ()
        assert change.revision == form.revision
