"""A plugin may name the versions of MaiBot that it supports. If the version that this bot reports
is not among them, the plugin runs and the bot gives a warning. A strict setting makes the bot
refuse the plugin instead. `check`, `install` and the bot decide alike."""

import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nekro_core.cli.plugin_kit.check import check
from nekro_core.compat.maibot.plugin.manifest import read_manifest
from nekro_core.compat.maibot.plugin.preflight import manifest_problems
from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.bot_follower import InstallRefused
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.sources import parse
from nekro_core.plugins.packages import PackageFolder
from nekro_core.testing import Bot
from tests.compat.maibot.plant import info_of, plant

SOURCE = """
from maibot_sdk import MaiBotPlugin, Tool
class Weather(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    @Tool("weather", description="Tell the weather.", core_tool=True)
    async def weather(self, **kwargs):
        return "sunny"
def create_plugin():
    return Weather()
"""
TOO_NEW: dict[str, Any] = {"host_application": {"min_version": "2.0.0"}}
TOO_OLD: dict[str, Any] = {"host_application": {"min_version": "1.0.0", "max_version": "1.2.99"}}
STRICT = PluginSettings(strict_host_range=True)


def installer(data: Path, said: list[str], *, strict: bool = False) -> Installer:
    return Installer(
        data_dir=data,
        shelf=PackageFolder(data),
        ask=lambda _: True,
        say=said.append,
        settings=STRICT if strict else PluginSettings(),
        preflight=partial(manifest_problems, strict_host_range=strict),
    )


@pytest.mark.parametrize(
    ("wanted", "told"),
    [(TOO_NEW, "wants 2.0.0 to any, this is 1.3.15"), (TOO_OLD, "wants 1.0.0 to 1.2.99")],
)
def test_reading_a_manifest_for_another_version_gives_a_warning(
    tmp_path: Path, wanted: dict[str, Any], told: str
) -> None:
    read = read_manifest(plant(tmp_path, SOURCE, **wanted) / "_manifest.json")
    assert told in read.host_range_problem
    (warning,) = read.problems
    assert told in str(warning)
    assert "NEKRO_PLUGIN__STRICT_HOST_RANGE=true" in warning.remedy


async def test_a_plugin_for_another_version_runs_and_a_strict_bot_refuses_it(
    tmp_path: Path,
) -> None:
    plant(tmp_path, SOURCE, plugin_id="ann.weather", **TOO_OLD)
    async with Bot.open(tmp_path) as bot:
        info = info_of(bot, "weather")
        assert info.state is PluginState.LOADED
        assert "wants 1.0.0 to 1.2.99, this is 1.3.15" in str(info.problems[0])
        assert await bot.chat().call("weather") == "sunny"
    async with Bot.open(tmp_path, settings={"nekro_plugin": STRICT}) as bot:
        info = info_of(bot, "weather")
        assert info.state is PluginState.BROKEN
        assert "NEKRO_PLUGIN__STRICT_HOST_RANGE=false" in str(info.problems[0])


@pytest.mark.long
async def test_check_and_install_give_the_same_warning(tmp_path: Path) -> None:
    folder = plant(tmp_path / "work", SOURCE, plugin_id="ann.weather", **TOO_NEW)
    out, said = io.StringIO(), list[str]()
    assert await check(folder, out) == 0
    assert "warning: host_application: wants 2.0.0 to any" in out.getvalue()
    assert installer(tmp_path, said).install(parse(str(folder))) == "local/weather"
    assert "  warning: host_application: wants 2.0.0 to any" in "\n".join(said)


@pytest.mark.long
async def test_with_the_strict_setting_check_and_install_refuse_the_plugin(tmp_path: Path) -> None:
    folder = plant(tmp_path / "work", SOURCE, plugin_id="ann.weather", **TOO_NEW)
    out = io.StringIO()
    assert await check(folder, out, STRICT) == 1
    assert "wants 2.0.0 to any" in out.getvalue()
    with pytest.raises(InstallRefused, match=r"a bot could not load it(.|\n)*wants 2.0.0 to any"):
        installer(tmp_path, [], strict=True).install(parse(str(folder)))
    assert not (tmp_path / "plugins").exists()


@pytest.mark.long
def test_install_refuses_a_plugin_that_no_bot_could_load(tmp_path: Path) -> None:
    """In an earlier version, `install` said that a running bot would load such a plugin at once."""
    old = plant(tmp_path / "work", SOURCE, plugin_id="ann.old", manifest_version=1)
    with pytest.raises(InstallRefused, match="manifest_version 1: expected 2"):
        installer(tmp_path, []).install(parse(str(old)))
    needs = [{"type": "plugin", "id": "ann.base", "version_spec": ">=1.0.0"}]
    more = plant(tmp_path / "work", SOURCE, plugin_id="ann.more", dependencies=needs)
    with pytest.raises(InstallRefused, match=r"needs the plugin ann\.base \(install that first\)"):
        installer(tmp_path, []).install(parse(str(more)))
    base = plant(tmp_path / "work", SOURCE, plugin_id="ann.base")
    assert installer(tmp_path, []).install(parse(str(base))) == "local/base"
    assert installer(tmp_path, []).install(parse(str(more))) == "local/more"


@pytest.mark.long
async def test_maibots_adapter_for_qq_counts_as_installed(tmp_path: Path) -> None:
    """The bot's own OneBot adapter does the work of MaiBot's adapters for QQ."""
    needs = [
        {"type": "plugin", "id": "maibot-team.napcat-adapter", "version_spec": ">=1.0.1,<2.0.0"},
        {"type": "plugin", "id": "maibot-team.snowluma-adapter"},
    ]
    folder = plant(tmp_path / "work", SOURCE, plugin_id="ann.weather", dependencies=needs)
    assert installer(tmp_path, []).install(parse(str(folder))) == "local/weather"
    async with Bot.open(tmp_path) as bot:
        assert info_of(bot, "weather").state is PluginState.LOADED
