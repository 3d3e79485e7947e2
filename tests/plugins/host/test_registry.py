"""Plugins are loaded, listed, unloaded and loaded again, and unloading leaves nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey
from nekro_core.plugins.host.listing import PluginInfo, PluginState, UnknownPlugin
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.switches import FILE_NAME, read_list, switch_plugin
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import ToolReturn
from tests.plugins.world import GROUP, World, plugin_source


def by_item(registry: PluginRegistry) -> dict[str, PluginInfo]:
    return {info.item: info for info in registry.plugins()}


def names(registry: PluginRegistry, chat_key: ChatKey = GROUP) -> set[str]:
    return {named.name for named in registry.tools_for(chat_key).named}


def loaded_modules(world: World) -> list[str]:
    folder = str(world.data_dir)
    return [
        name
        for name, module in sys.modules.items()
        if str(getattr(module, "__file__", "") or "").startswith(folder)
    ]


async def said(registry: PluginRegistry, world: World, name: str, *args: object) -> object:
    tool = registry.tools_for(GROUP).resolve(name)
    assert tool is not None
    outcome = await call_tool(tool, world.ctx(), args)
    assert isinstance(outcome, ToolReturn)
    return outcome.value


async def test_a_file_in_the_folder_is_a_plugin(world: World) -> None:
    world.write("weather.py", plugin_source("weather", "temperature"))
    async with world.bot() as registry:
        info = by_item(registry)["local/weather"]
        assert (info.state, info.key, info.version) == (PluginState.LOADED, "ann.weather", "1")
        assert [tool.name for tool in info.tools] == ["temperature"]
        assert await said(registry, world, "temperature", "Tokyo") == "ann: Tokyo"


async def test_a_package_in_the_folder_is_a_plugin(world: World) -> None:
    world.write("big/words.py", "WORDS = 'from inside'")
    more = "\n\nfrom .words import WORDS\n\nplugin.description = WORDS\n"
    world.write("big/__init__.py", plugin_source("big", "f", more=more))
    world.write("_ignored.py", "raise SystemExit")
    world.write(".hidden/__init__.py", "raise SystemExit")
    world.write("readme.txt", "no plugin")
    async with world.bot() as registry:
        assert list(by_item(registry)) == ["local/big"]
        assert by_item(registry)["local/big"].description == "from inside"


async def test_unloading_removes_modules_and_tools(world: World) -> None:
    world.write("big/words.py", "WORDS = 1")
    world.write("big/__init__.py", plugin_source("big", "f", more="\nfrom . import words\n"))
    async with world.bot() as registry:
        assert len(loaded_modules(world)) == 2
        await registry.disable("ann.big")
        assert loaded_modules(world) == []
        assert names(registry) == set()
        assert by_item(registry)["local/big"].state is PluginState.DISABLED
        await registry.enable("ann.big")
        assert names(registry) == {"f"}
    assert loaded_modules(world) == []


async def test_a_disabled_plugin_stays_disabled_and_is_not_run(world: World) -> None:
    world.write("a.py", plugin_source("a", "f"))
    async with world.bot() as registry:
        await registry.disable("local/a")
    world.write("a.py", f"open({str(world.data_dir / 'ran')!r}, 'w')")
    async with world.bot() as registry:
        assert by_item(registry)["local/a"].state is PluginState.DISABLED
        assert not (world.data_dir / "ran").exists()


async def test_enabling_an_edited_plugin_loads_the_new_code(world: World) -> None:
    world.write("a/part.py", "WORD = 'old'")
    more = "\nfrom .part import WORD\nplugin.description = WORD\n"
    world.write("a/__init__.py", plugin_source("a", "f", more=more))
    async with world.bot() as registry:
        assert by_item(registry)["local/a"].description == "old"
        world.write("a/part.py", "WORD = 'newer'")
        world.write("a/__init__.py", plugin_source("a", "g", more=more))
        info = await registry.enable("local/a")
        assert info.description == "newer"
        assert names(registry) == {"g"}


async def test_a_plugin_added_while_the_bot_runs_can_be_enabled(world: World) -> None:
    async with world.bot() as registry:
        assert registry.plugins() == ()
        world.write("late.py", plugin_source("late", "f"))
        await registry.enable("local/late")
        assert names(registry) == {"f"}


async def test_the_error_for_an_unknown_plugin_lists_the_known_ones(world: World) -> None:
    world.write("a.py", plugin_source("a", "f"))
    async with world.bot() as registry:
        with pytest.raises(UnknownPlugin, match=r"'b'; there are ann\.a"):
            await registry.disable("b")


LIFE = """
from pathlib import Path

LOG = Path({log!r})

def log(word):
    with LOG.open("a") as file:
        file.write(word + "\\n")

log("import")

@plugin.mount_init_method()
async def init():
    log(f"init enabled={{plugin.is_enabled}}")

@plugin.mount_cleanup_method()
async def cleanup():
    log(f"cleanup enabled={{plugin.is_enabled}}")
"""


async def test_init_runs_before_a_plugin_is_enabled_and_cleanup_before_it_is_disabled(
    world: World,
) -> None:
    log = world.data_dir / "log"
    world.write("a.py", plugin_source("a", "f", more=LIFE.format(log=str(log))))
    async with world.bot() as registry:
        await registry.disable("ann.a")
        await registry.enable("ann.a")
    life = ["import", "init enabled=False", "cleanup enabled=True"]
    assert log.read_text().split("\n")[:-1] == life * 2


LATE_TOOL = '''
@plugin.mount_init_method()
async def init():
    @plugin.mount_sandbox_method(SandboxMethodType.TOOL, "in_init", "")
    async def in_init(_ctx: AgentCtx) -> str:
        """Later."""
        @plugin.mount_sandbox_method(SandboxMethodType.TOOL, "in_tool", "")
        async def in_tool(_ctx: AgentCtx) -> str:
            """Latest."""
            return "here"
        return "done"
'''


async def test_tools_can_be_mounted_after_the_import(world: World) -> None:
    world.write("a.py", plugin_source("a", more=LATE_TOOL))
    async with world.bot() as registry:
        assert names(registry) == {"in_init"}
        assert await said(registry, world, "in_init") == "done"
        assert names(registry) == {"in_init", "in_tool"}


async def test_tools_of_other_platforms_are_not_offered(world: World) -> None:
    world.write("a.py", plugin_source("a", "f", more='\nplugin.support_adapter = ["web"]\n'))
    async with world.bot() as registry:
        assert names(registry) == set()
        assert names(registry, ChatKey.parse("web-private_lin")) == {"f"}


async def test_two_tools_of_one_name_are_reported_and_need_their_plugins_name(world: World) -> None:
    world.write("a.py", plugin_source("a", "draw"))
    world.write("b.py", plugin_source("b", "draw", author="bob"))
    async with world.bot() as registry:
        assert names(registry) == {"a.draw", "b.draw"}
        for info in registry.plugins():
            assert "nobody has it until the operator orders them" in info.problems[0].message
        await registry.disable("ann.a")
        assert names(registry) == {"draw"}
    async with world.bot(order=("bob.b",)) as registry:
        await registry.enable("ann.a")
        assert await said(registry, world, "draw", "x") == "bob: x"
        assert await said(registry, world, "a.draw", "x") == "ann: x"


async def test_plugins_of_two_bots_in_one_process_are_separate(tmp_path: Path) -> None:
    worlds = [World(tmp_path / "one"), World(tmp_path / "two")]
    for world in worlds:
        source = plugin_source("same", "f", author=world.data_dir.name)
        world.write("same.py", source)
    one, two = worlds
    async with one.bot() as first:
        async with two.bot() as second:
            assert await said(first, one, "f", "x") == "one: x"
            assert await said(second, two, "f", "x") == "two: x"
        assert await said(first, one, "f", "x") == "one: x"


async def test_an_unreadable_list_of_plugins_is_renamed_and_ignored(world: World) -> None:
    world.write("a.py", plugin_source("a", "f"))
    (world.data_dir / FILE_NAME).write_text("{not json")
    async with world.bot() as registry:
        assert names(registry) == {"f"}
    assert (world.data_dir / "plugins.broken").read_text() == "{not json"


async def test_another_process_can_enable_and_disable_plugins_of_a_running_bot(
    world: World,
) -> None:
    world.write("a.py", plugin_source("a", "f"))
    world.write("b.py", "def broken(:")
    async with world.bot(look_s=0.01) as registry:
        a, b = read_list(world.data_dir)
        assert (a.item, a.key, a.state, a.tools) == ("local/a", "ann.a", "loaded", ["f"])
        assert b.state == "broken"
        assert "SyntaxError" in b.problems[0]
        assert switch_plugin(world.data_dir, "ann.a", wanted=False) == "local/a"
        await until(lambda: names(registry) == set())
        assert switch_plugin(world.data_dir, "ann.a", wanted=True) == "local/a"
        await until(lambda: names(registry) == {"f"})
        world.write("late.py", plugin_source("late", "g"))
        switch_plugin(world.data_dir, "local/late", wanted=True)
        await until(lambda: names(registry) == {"f", "g"} and len(read_list(world.data_dir)) == 3)
        with pytest.raises(UnknownPlugin, match=r"'x'; there are ann\.a, local/b, ann\.late"):
            switch_plugin(world.data_dir, "x", wanted=True)


async def test_an_error_of_the_code_that_has_opened_a_registry_is_raised_unchanged(
    world: World,
) -> None:
    with pytest.raises(KeyError, match="inside"):
        async with world.bot():
            raise KeyError("inside")


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not holds():
            await anyio.sleep(0.01)
