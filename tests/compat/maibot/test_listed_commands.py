"""The commands of a plugin are listed as people type them, by ``/help`` and before the
installation."""

import json
from pathlib import Path

import pytest

from nekro_core.plugins.authoring.pattern_usage import usage_of_pattern
from nekro_core.plugins.installation.inspection import inspect_plugin
from nekro_core.plugins.installation.report import abilities_text
from nekro_core.testing import Bot
from tests.compat.maibot.plant import info_of, manifest, plant

SOURCE = """
from maibot_sdk import Command, MaiBotPlugin, Tool

TOOL_NAME = "find_dish"

class Kitchen(MaiBotPlugin):
    SIDE = "find_side"

    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @Tool(TOOL_NAME, description="finds a dish")
    async def find(self, **kwargs): ...

    @Tool(name=SIDE, description="finds a side dish")
    async def side(self, **kwargs): ...

    @Command("order", description="orders a dish", pattern=r"^/order\\s+(?P<dish>.+)$")
    async def order(self, **kwargs): ...

    @Command("close", description="closes", pattern="^/close$", permission="operator")
    async def close(self, **kwargs): ...

def create_plugin():
    return Kitchen()
"""
OLDER = """
from src.plugin_system import BaseAction, BaseCommand, BasePlugin, BaseTool

class Bless(BaseAction):
    action_name = "bless"

class Size(BaseTool):
    name = "size"

class Cast(BaseCommand):
    command_name = "cast"
    command_pattern = r"^/cast (?P<about>.+)$"
"""


@pytest.mark.parametrize(
    ("pattern", "usage"),
    [
        (r"^/算卦\s+(?P<about>.+)$", "/算卦 <about>"),
        (r"^[/／]签到\s*$", "/签到"),
        (r"^/guess (?:(?P<sub>start)\s+)?(?P<n>\d+)$", "/guess [<sub>] <n>"),
        (r"^/(?:送花|flower)", "/送花|flower"),
        ("^.*$", "^.*$"),
        ("(", "("),
    ],
)
def test_a_pattern_is_written_as_people_type_it(pattern: str, usage: str) -> None:
    assert usage_of_pattern(pattern) == usage


async def test_help_lists_the_commands_of_a_plugin(tmp_path: Path) -> None:
    plant(tmp_path, SOURCE, plugin_id="ann.kitchen", capabilities=["send.text", "send.txet"])
    async with Bot.open(tmp_path) as bot:
        (told,) = await bot.chat().say("/help")
        assert "/order <dish>: orders a dish" in told
        assert "/close" not in told, "only operators see this command"
        problems = "\n".join(map(str, info_of(bot, "kitchen").problems))
        assert "there is no capability 'send.txet'" in problems
        assert "did you mean 'send.text'?" in problems
        await bot.app.plugins.disable("local/kitchen")
        (told,) = await bot.chat().say("/help")
        assert "/order" not in told


@pytest.mark.parametrize(
    ("source", "tools", "commands"),
    [
        (SOURCE, ("find_dish", "find_side"), "/order <dish>, /close"),
        (OLDER, ("bless", "size"), "/cast <about>"),
    ],
    ids=["the SDK", "before the SDK"],
)
def test_before_the_installation_the_components_are_read_from_the_files(
    tmp_path: Path, source: str, tools: tuple[str, ...], commands: str
) -> None:
    (tmp_path / "_manifest.json").write_text(json.dumps(manifest("ann.kitchen")))
    (tmp_path / "plugin.py").write_text(source)
    looked = inspect_plugin(tmp_path)
    assert sorted(looked.tools) == sorted(tools)
    assert f"  commands for people: {commands}" in list(abilities_text(looked))
