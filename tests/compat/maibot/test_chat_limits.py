"""Authors set in which chats a component may be used. Further tests here are about a command
without a pattern, and about plugins that normalize their configuration themselves."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey
from nekro_core.compat.maibot.plugin.chat_limits import serves
from nekro_core.compat.maibot.plugin.components import MaiBotComponent
from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
from nekro_core.tools.problem import ProblemSeverity
from tests.compat.maibot.plant import info_of, plant

HEAD = """
from maibot_sdk import Command, HookHandler, MaiBotPlugin, Tool
class P(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
"""
TAIL = """
def create_plugin():
    return P()
"""
LIMITED = f"""{HEAD}
    @Tool("mute", core_tool=True, chat_scope="group")
    async def mute(self, **kwargs): return "muted"

    @Tool("vault", core_tool=True, allowed_session=["qq:1", "9", "test:7:group"])
    async def vault(self, **kwargs): return "opened"

    @Tool("anywhere", core_tool=True)
    async def anywhere(self, **kwargs): return "here"

    @Command("note", pattern="^/note$", chat_scope="private")
    async def note(self, stream_id, **kwargs):
        await self.ctx.send.text("noted", stream_id)
        return True, None, True

    def get_components(self):
        made = super().get_components()
        for each in made:
            if each["name"] == "vault":
                each["allowed_session"] = each["metadata"].pop("allowed_session")
        return made
{TAIL}"""


async def test_a_tool_is_offered_only_in_its_chats(tmp_path: Path) -> None:
    plant(tmp_path, LIMITED, plugin_id="ann.limited")
    async with Bot.open(tmp_path) as bot:
        assert info_of(bot, "limited").state is PluginState.LOADED
        names = {"mute", "vault", "anywhere"}
        for chat, offered in (
            ("group_7", names),
            ("group_8", {"mute", "anywhere"}),
            ("private_9", {"vault", "anywhere"}),
            ("private_7", {"anywhere"}),
        ):
            key = bot.chat(chat).key
            ctx = bot.app.plugins.context_for(key)
            tools = await bot.app.plugins.tools_in(ctx)
            assert {each.tool.name for each in tools.named} & names == offered, chat
        assert await bot.chat("group_7").call("vault") == "opened"
        assert await bot.chat("private_lin").say("/note") == ["noted"]
        assert await bot.chat("group_7").ask("/note", reply="what?") == ["what?"]
        told = "print(mute())"
        await bot.chat("private_lin").ask("mute him", code=told, reply="I cannot")
        assert "there is no function 'mute'" in bot.prompt or "'mute' is not defined" in bot.prompt


@pytest.mark.parametrize(
    ("options", "chat", "fits"),
    [
        ({}, "onebot_v11-group_7", True),
        ({"chat_scope": "all"}, "onebot_v11-private_7", True),
        ({"chat_scope": "private"}, "onebot_v11-group_7", False),
        ({"chat_scope": "group"}, "onebot_v11-group_7", True),
        ({"allowed_session": "qq:7"}, "onebot_v11.2-group_7", True),
        ({"allowed_session": ["telegram:7"]}, "onebot_v11-group_7", False),
        ({"allowed_session": ["7"]}, "onebot_v11-group_7", True),
        ({"allowed_session": ["onebot_v11-group_7"]}, "onebot_v11-group_7", True),
        ({"allowed_session": ["qq:7:private"]}, "onebot_v11-group_7", False),
        ({"allowed_session": []}, "onebot_v11-group_7", True),
    ],
)
def test_the_options_of_a_component_decide_in_which_chats_it_serves(
    options: dict[str, object], chat: str, fits: bool
) -> None:
    component = MaiBotComponent("x", "TOOL", options)
    assert serves(component, ChatKey.parse(chat)) is fits


NO_PATTERN = f"""{HEAD}
    @Command("lonely", description="nobody can call it")
    async def lonely(self, **kwargs): pass

    @Command("by_alias", aliases=["/hey"])
    async def by_alias(self, stream_id, **kwargs):
        await self.ctx.send.text("hey!", stream_id)
        return True, None, True
{TAIL}"""


async def test_a_command_without_a_pattern_is_never_called_and_causes_a_warning(
    tmp_path: Path,
) -> None:
    plant(tmp_path, NO_PATTERN, plugin_id="ann.quiet")
    async with Bot.open(tmp_path) as bot:
        (problem,) = info_of(bot, "quiet").problems
        assert problem.severity is ProblemSeverity.WARNING
        assert "command 'lonely' is never called" in problem.message
        assert "pattern" in problem.remedy
        assert await bot.chat().say("/hey") == ["hey!"]


OWN_DEFAULTS = """
from maibot_sdk import MaiBotPlugin, Tool
class P(MaiBotPlugin):
    async def on_load(self): self.loaded_with = dict(self.get_plugin_config_data())
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    def get_default_config(self):
        return {"plugin": {"enabled": True, "config_version": "1.0"}, "shop": {"open": True}}

    def normalize_plugin_config(self, config_data):
        made = {section: dict(values) for section, values in config_data.items()}
        made["shop"]["hours"] = int(config_data["shop"].get("hours", 8))
        return made, True

    @Tool("shop", core_tool=True)
    async def shop(self, **kwargs): return self.loaded_with["shop"]

def create_plugin():
    return P()
"""


async def test_a_plugin_without_a_configuration_class_normalizes_its_defaults(
    tmp_path: Path,
) -> None:
    folder = plant(tmp_path, OWN_DEFAULTS, plugin_id="ann.shop")
    async with Bot.open(tmp_path) as bot:
        assert not info_of(bot, "shop").problems
        assert await bot.chat().call("shop") == {"open": True, "hours": 8}
    path = folder / "config.toml"
    assert "hours = 8" in path.read_text()
    path.write_text(path.read_text().replace("hours = 8", "hours = 9"))
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat().call("shop") == {"open": True, "hours": 9}


MIGRATES = """
from maibot_sdk import MaiBotPlugin, Tool
class P(MaiBotPlugin):
    async def on_load(self): self.loaded_with = dict(self.get_plugin_config_data())
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    def get_default_config(self):
        return {"plugin": {"enabled": True, "config_version": "2.0"}, "shop": {"hours": 8}}

    def normalize_plugin_config(self, config_data):
        made = {section: dict(values) for section, values in config_data.items()}
        if "opening" in made:
            made["shop"] = {"hours": made.pop("opening")["until"]}
            made["plugin"]["config_version"] = "2.0"
        return made, True

    @Tool("shop", core_tool=True)
    async def shop(self, **kwargs): return self.loaded_with["shop"]

def create_plugin():
    return P()
"""


async def test_a_plugin_migrates_its_old_values(tmp_path: Path) -> None:
    folder = plant(tmp_path, MIGRATES, plugin_id="ann.shop")
    old = '[plugin]\nenabled = true\nconfig_version = "1.0"\n[opening]\nuntil = 6\n'
    (folder / "config.toml").write_text(old)
    async with Bot.open(tmp_path) as bot:
        (told,) = info_of(bot, "shop").problems
        assert ".bak" in told.message, "the message must name the copy of the old file"
        assert await bot.chat().call("shop") == {"hours": 6}
