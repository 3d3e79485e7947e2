"""A plugin written before MaiBot's SDK existed runs through the SDK's adapter for such plugins."""

import sys
import warnings
from pathlib import Path

import pytest

from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
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
