"""A plugin written before MaiBot's SDK existed runs through the SDK's adapter for such plugins."""

import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
from nekro_core.tools.outcome import ToolFailure
from tests.compat.maibot.plant import info_of, plant

pytestmark = pytest.mark.long

OLDER = """
from src.plugin_system import BaseCommand, BasePlugin, register_plugin

class Hi(BaseCommand):
    command_name = "hi"
    command_description = "greets"
    command_pattern = r"^/hi(?: (?P<name>.+))?$"

    async def execute(self):
        name = (self.matched_groups or {}).get("name") or "you"
        await self.send_text(f"hi {name}")
        return True, "greeted", True

@register_plugin
class Older(BasePlugin):
    plugin_name = "older"
    enable_plugin = True
    dependencies = []
    python_dependencies = []
    config_file_name = "config.toml"
    config_schema = {}

    def get_plugin_components(self):
        return [(Hi.get_command_info(), Hi)]
"""


async def test_a_plugin_from_before_the_sdk_answers(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the SDK warns about old plugins
        plant(tmp_path, OLDER, plugin_id="ann.older")
        async with Bot.open(tmp_path) as bot:
            info = info_of(bot, "older")
            assert info.state is PluginState.LOADED, info.problems
            assert await bot.chat().say("/hi Mei") == ["hi Mei"]
            assert "src.plugin_system" in sys.modules
            await bot.app.plugins.disable("local/older")
            assert "src.plugin_system" not in sys.modules


SETTINGS_AND_ACTION = """
from src.plugin_system import (
    BaseAction, BaseCommand, BasePlugin, BaseTool, ConfigField, ToolParamType, register_plugin
)

class Bless(BaseAction):
    action_name = "bless"
    action_description = "blesses somebody"
    activation_keywords = ["unlucky"]
    action_parameters = {"who": "the person's name", "wish": "a wish, may be left out"}
    action_require = ["somebody complains about bad luck", "not twice in a row"]

    async def execute(self):
        who = self.action_data.get("who")
        await self.send_text(f"{who}: {self.get_config('bless.words')} {sorted(self.action_data)}")
        return True, "blessed"

class Size(BaseTool):
    name = "size"
    description = "tells the size"
    parameters = [("unit", ToolParamType.STRING, "the unit", True, ["cm", "inch"])]

    async def execute(self, function_args):
        return {"content": f"7 {function_args['unit']}"}

class Words(BaseCommand):
    command_name = "words"
    command_description = "shows the words"
    command_pattern = r"^/words$"

    async def execute(self):
        await self.send_text(self.get_config("bless.words"))
        return True, None, True

@register_plugin
class Older(BasePlugin):
    plugin_name = "older"
    enable_plugin = True
    dependencies = []
    python_dependencies = []
    config_file_name = "config.toml"
    config_schema = {
        "plugin": {
            "enabled": ConfigField(type=bool, default=True, description="on"),
            "config_version": ConfigField(type=str, default="1.1.0", description="version"),
        },
        "bless": {
            "words": ConfigField(type=str, default="all the best", description="words"),
            "sizes": ConfigField(type=bool, default=False, description="offer size"),
        },
    }

    def get_plugin_components(self):
        found = [(Bless.get_action_info(), Bless), (Words.get_command_info(), Words)]
        if self.get_config("bless.sizes", False):
            found.append((Size.get_tool_info(), Size))
        return found
"""


async def test_a_plugin_for_old_versions_gets_its_defaults_and_the_arguments_of_its_action(
    tmp_path: Path,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        plugin = plant(tmp_path, SETTINGS_AND_ACTION, plugin_id="ann.older")
        async with Bot.open(tmp_path) as bot:
            chat = bot.chat()
            assert await chat.say("/words") == ["all the best"]
            written = (plugin / "config.toml").read_text()
            assert 'words = "all the best"' in written
            await chat.call("bless", who="Mei")
            assert chat.texts[-1] == "Mei: all the best ['who']"
            (told,) = await chat.ask(
                "what is there?", code="send_channel_message(str(tool_search('bless')))", reply=""
            )
            for words in ("the person's name", "When to use it:", "not twice in a row", "unlucky"):
                assert words in told


async def test_an_old_plugin_reads_its_configuration_to_choose_its_components(
    tmp_path: Path,
) -> None:
    config = '[plugin]\nenabled = true\nconfig_version = "1.0.0"\n[bless]\nsizes = true\nmine = 1\n'
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        plugin = plant(tmp_path, SETTINGS_AND_ACTION, plugin_id="ann.older", config=config)
        async with Bot.open(tmp_path) as bot:
            assert await bot.chat().call("size", unit="cm") == {"content": "7 cm"}
            with pytest.raises(ToolFailure, match="unit"):
                await bot.chat().call("size", unit="miles")
    written = tomllib.loads((plugin / "config.toml").read_text())
    assert written["bless"]["mine"] == 1
    assert written["plugin"]["config_version"] == "1.1.0"
