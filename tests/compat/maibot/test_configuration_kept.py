"""When a plugin's new version changes its configuration, nothing that the operator wrote is
lost."""

import tomllib
from pathlib import Path

import pytest

from nekro_core.testing import Bot
from tests.compat.maibot.plant import info_of, plant

SOURCE = """
from maibot_sdk import Command, Field, MaiBotPlugin, PluginConfigBase

class PluginSection(PluginConfigBase):
    enabled: bool = Field(default=True)
    config_version: str = Field(default="2.0.0")

class Style(PluginConfigBase):
    colors: list[str] = Field(default_factory=lambda: ["blue"])
    city: str = Field(default="Berlin")

class Config(PluginConfigBase):
    plugin: PluginSection = Field(default_factory=PluginSection)
    style: Style = Field(default_factory=Style)

class Painter(MaiBotPlugin):
    config_model = Config
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    {method}

    @Command("show", pattern="^/show$")
    async def show(self, stream_id, **kwargs):
        style = self.config.style
        await self.ctx.send.text(f"{{style.city}} {{style.colors}}", stream_id)
        return True, None, True

def create_plugin():
    return Painter()
"""

MOVES = """
    def normalize_plugin_config(self, config_data):
        data = {key: dict(value) for key, value in dict(config_data or {}).items()}
        old = data.pop("general", None)
        if old:
            style = data.setdefault("style", {})
            style["city"] = old["city"]
            style["colors"] = old["colors"].split(",")
            data["plugin"]["config_version"] = "2.0.0"
        return super().normalize_plugin_config(data)
"""
RAISES = """
    def normalize_plugin_config(self, config_data):
        if config_data and config_data["plugin"]["config_version"] != "2.0.0":
            raise ValueError("I do not know this version")
        return super().normalize_plugin_config(config_data)
"""

OLD = """\
# my own words
[plugin]
enabled = true
config_version = "1.0.0"

[general]
city = "Graz"
colors = "red,black"

[style]
city = "Linz"
"""


@pytest.mark.parametrize(
    ("method", "shown"),
    [(MOVES, "Graz ['red', 'black']"), (RAISES, "Linz ['blue']"), ("", "Linz ['blue']")],
    ids=["its own migration", "a migration that fails", "no migration"],
)
async def test_a_new_version_uses_the_values_of_the_old_configuration_file_or_its_defaults(
    tmp_path: Path, method: str, shown: str
) -> None:
    plugin = plant(tmp_path, SOURCE.format(method=method), plugin_id="ann.painter", config=OLD)
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat().say("/show") == [shown]
        told = "\n".join(map(str, info_of(bot, "painter").problems))
        assert "config.toml.1.0.0.bak" in told
    assert (plugin / "config.toml.1.0.0.bak").read_text() == OLD
    written = (plugin / "config.toml").read_text()
    assert "# my own words" in written
    assert tomllib.loads(written)["plugin"]["config_version"] == "2.0.0"
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat("private_mei").say("/show") == [shown]
        assert not info_of(bot, "painter").problems
    assert [each.name for each in plugin.glob("*.bak")] == ["config.toml.1.0.0.bak"]


async def test_missing_values_are_added_to_a_configuration_file_without_a_backup_copy(
    tmp_path: Path,
) -> None:
    config = '[plugin]\nenabled = true\nconfig_version = "2.0.0"\n\n[style]\ncity = "Linz"\n'
    plugin = plant(tmp_path, SOURCE.format(method=""), plugin_id="ann.painter", config=config)
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat().say("/show") == ["Linz ['blue']"]
    assert "colors" in (plugin / "config.toml").read_text()
    assert not [*plugin.glob("*.bak")]
