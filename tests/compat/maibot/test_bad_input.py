"""A faulty plugin is reported with its fault and the remedy, and the other plugins run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nekro_core.compat.maibot.plugin.components import MaiBotComponent, components_of
from nekro_core.compat.maibot.plugin.manifest import MaiBotManifestError, discover, read_manifest
from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
from nekro_core.tools.outcome import ToolFailure
from tests.compat.maibot.plant import info_of, manifest, plant

GOOD = """
from maibot_sdk import Command, MaiBotPlugin, Tool
class P(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    {body}
def create_plugin():
    return P()
"""
TOOL = """
    @Tool("{name}", description="d"{more})
    async def f_{name}(self, **kwargs):
        return "{name}"
"""

MANIFESTS: list[tuple[Any, str]] = [
    (b"\xff\xfe{}", "not UTF-8"),
    (b"{", "no JSON: .* line 1"),
    (b"[]", "expected an object, got list"),
    (b"[" * 100_000, "nested too deeply|no JSON"),
    ({"manifest_version": 1}, "manifest_version 1: expected 2"),
    ({"manifest_version": "2"}, "manifest_version '2': expected 2"),
    ({"id": "noauthor"}, "id 'noauthor': expected words joined"),
    ({"id": "a.b/../../c"}, "id 'a.b/../../c'"),
    ({"version": "1.0"}, "version '1.0': expected three numbers"),
    ({"name": ""}, "name: expected a text, got ''"),
    ({"capabilities": "send.text"}, "capabilities: expected a list, got str"),
    ({"capabilities": [1]}, "capabilities: expected texts, got 1"),
    ({"dependencies": [3]}, "dependencies: expected objects, got 3"),
    ({"host_application": {"max_version": "new"}}, "version 'new'"),
]


@pytest.mark.parametrize(("change", "told"), MANIFESTS)
def test_an_invalid_manifest_is_refused_with_the_reason(
    tmp_path: Path, change: Any, told: str
) -> None:
    path = tmp_path / "_manifest.json"
    text = json.dumps(manifest("ann.bad") | change).encode() if isinstance(change, dict) else change
    path.write_bytes(text)
    with pytest.raises(MaiBotManifestError, match=told):
        read_manifest(path)


def test_valid_manifests_are_read(tmp_path: Path) -> None:
    path = tmp_path / "_manifest.json"
    more = {"host_application": {"max_version": "1.3.1"}, "sdk": {"max_version": "2.1.0"}}
    path.write_text(json.dumps(manifest("7.my-plugin.class") | more), encoding="utf-8-sig")
    read = read_manifest(path)
    assert read.key == ("_7", "my_plugin_class")
    assert "wants any to 2.1.0" in str(read.problems[0])  # this is only a warning


def test_a_plugin_loads_after_the_plugins_that_it_needs(tmp_path: Path) -> None:
    needs = {"dependencies": [{"type": "plugin", "id": "ann.zoo", "version_spec": ">=1.0.0"}]}
    back = {"dependencies": [{"type": "plugin", "id": "ann.art"}]}
    plant(tmp_path, "", plugin_id="ann.art", **needs)
    # These two plugins need each other. They get an order all the same.
    plant(tmp_path, "", plugin_id="ann.zoo", **back)
    plant(tmp_path, "", plugin_id="ann.bad", manifest_version=7)
    found = [each.name for each in discover("local", tmp_path / "plugins")]
    assert found == ["zoo", "art", "bad"]


SKILLS = """
import threading
from maibot_sdk import HookHandler, MaiBotPlugin, Tool
class Skills(MaiBotPlugin):
    async def on_load(self): self.skills = {"brew": "tea"}
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    def get_components(self):
        made = [
            {"name": name, "type": "TOOL", "metadata": {
                "description": f"makes {what}", "handler_name": f"no_such_{name}",
                "parameters": {"cups": {"type": "integer", "required": True}}}}
            for name, what in self.skills.items()
        ]
        return super().get_components() + made
    async def invoke_component(self, component_name, **kwargs):
        what = self.skills[component_name]
        return {"message": f"{kwargs['cups']} cups of {what}", "for": kwargs["user_id"]}
    @Tool("where_am_i")
    def where_am_i(self, stream_id):
        main = threading.current_thread() is threading.main_thread()
        return (not main, f"{stream_id} in a thread")
    @Tool("speaks")
    async def speaks(self, stream_id, **kwargs):
        await self.ctx.send.text("hello", stream_id)
    @HookHandler("send_service.before_send")
    async def echo(self, stream_id, **kwargs):
        await self.ctx.send.text("first of all", stream_id)
    @Tool("says_no", parameters={"why": {"type": "string"}})
    async def says_no(self, why="because"):
        return [False, why]
def create_plugin():
    return Skills()
"""


WILD = """
    @Command("wild", pattern=r"^(?P<a>(a+)+)$")
    async def wild(self, stream_id, **kwargs):
        await self.ctx.send.text("wild", stream_id)
    @Command("tame", pattern="tame")
    async def tame(self, stream_id, **kwargs):
        await self.ctx.send.text("tame", stream_id)
"""
PLUGINS = [
    ("def create_plugin(: pass", {}, "SyntaxError"),
    ("import nothing_of_this_name", {}, "nothing_of_this_name"),
    ("x = 1", {}, r"has no create_plugin\(\)"),
    ("def create_plugin(): return 3", {}, r"create_plugin\(\) gives int"),
    ("def create_plugin(): raise RuntimeError('boom')", {}, "RuntimeError: boom"),
    (GOOD.format(body="").replace("on_load(self): pass", "on_load(self): 1/0"), {}, "ZeroDivision"),
    (GOOD.format(body=""), {"config": "a = "}, r"config.toml: Invalid value"),
    (GOOD.format(body=""), {"dependencies": [{"type": "plugin", "id": "x.y"}]}, "needs the plugin"),
    (
        GOOD.format(body="def get_components(self): raise KeyError('odd')"),
        {},
        "KeyError",
    ),
]


async def test_a_broken_plugin_is_reported_and_the_others_load(tmp_path: Path) -> None:
    for number, (source, changes, _) in enumerate(PLUGINS):
        plant(tmp_path, source, plugin_id=f"ann.bad{number}", **changes)
    plant(tmp_path, GOOD.format(body=TOOL.format(name="fine", more="")), plugin_id="ann.good")
    plant_partly_usable(tmp_path)
    plant(tmp_path, SKILLS, plugin_id="ann.skills")
    plant(tmp_path, GOOD.format(body=WILD), plugin_id="ann.wild")
    off = '[plugin]\nenabled = false\nconfig_version = "1"\n'
    plant(tmp_path, "raise SystemExit('imported')", plugin_id="ann.off", config=off)
    async with Bot.open(tmp_path) as bot:
        for number, (_, _, told) in enumerate(PLUGINS):
            info = info_of(bot, f"bad{number}")
            assert info.state is PluginState.BROKEN
            (problem,) = info.problems
            assert re.search(told, str(problem)), str(problem)
            assert problem.where
        assert info_of(bot, "off").state is PluginState.DISABLED
        assert "enabled is false" in str(info_of(bot, "off").problems[0])
        assert await bot.chat().call("fine") == "fine"
        look_at_partly_usable(bot)
        await look_at_skills(bot)
        await look_at_a_wild_pattern(bot)


async def look_at_a_wild_pattern(bot: Bot) -> None:
    """Python's own ``re`` would practically never finish matching the second message."""
    chat = bot.chat("group_wild")
    assert await chat.say("aaa") == ["first of all", "wild"]
    assert await chat.say(f"{'a' * 200} and tame") == ["first of all", "tame"]


def plant_partly_usable(tmp_path: Path) -> None:
    body = "".join(
        [
            TOOL.format(name="typo", more=", core_tol=True"),
            TOOL.format(name="secret", more=', visibility="hidden"'),
            TOOL.format(name="extra", more=', flavour="mint", core_tool=True'),
            TOOL.format(name="qq_only", more=', platforms="qq"'),
            TOOL.format(name="user", more=', parameters={"user_id": {"type": "string"}}'),
            '\n    @Command("c", pattern="(")\n    async def c(self, **kwargs): pass\n',
        ]
    )
    plant(tmp_path, GOOD.format(body=body))


def look_at_partly_usable(bot: Bot) -> None:
    info = info_of(bot, "seed")
    told = "\n".join(map(str, info.problems))
    assert "there is no option 'core_tol' (did you mean 'core_tool'?)" in told
    assert "command 'c': its pattern '(' is none" in told
    offered = {each.name for each in bot.app.plugins.tools_for(bot.chat().key).tools}
    assert {"extra", "user"} <= offered
    assert not {"typo", "secret", "qq_only"} & offered


async def look_at_skills(bot: Bot) -> None:
    """The plugins have two unusual kinds of component. Components of the first kind are made in
    ``on_load``, and no handler has their name. A component of the second kind has a handler that is
    not async and takes only some of the arguments."""
    chat = bot.chat()
    assert await chat.call("brew", cups="2") == {"message": "2 cups of tea", "for": "lin"}
    assert await chat.call("where_am_i") == f"{chat.key} in a thread"
    await chat.call("speaks")
    # hooks are not called for messages that a hook sends
    assert chat.texts == ["first of all", "hello"]
    with pytest.raises(ToolFailure, match="says_no: because"):
        await chat.call("says_no")
    with pytest.raises(ToolFailure, match="missing 'cups'"):
        await chat.call("brew")


def test_components_written_by_hand_are_read() -> None:
    declared = [
        {"name": "a", "type": "tool", "metadata": {"parameters": {"x": {"type": "int"}}}},
        {"name": "a", "type": "TOOL", "metadata": {}},
        {"name": "b", "type": "ACTION", "description": "top", "metadata": None},
        {"name": "off", "type": "TOOL", "metadata": {"enabled": False}},
        {"type": "TOOL"},
        "nonsense",
    ]
    found, problems = components_of(declared, "plugin.py:1")
    assert [(each.name, each.type) for each in found] == [("a", "TOOL"), ("b", "TOOL")]
    assert found[1].description == "top"
    assert len(problems) == 3
    assert components_of([declared[0] | {"name": str(n)} for n in range(600)], "")[1]
    odd = MaiBotComponent("c", "TOOL", {"timeout_ms": "soon", "core_tool": "yes"})
    assert odd.number("timeout_ms", 7) == 7
    assert odd.flag("core_tool")
