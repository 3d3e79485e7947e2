"""A plugin has hooks for system lines and for the reset of a chat, and can choose a chat's
tools."""

from typing import Any

import pytest

from nekro_core.chat import ChatKey
from nekro_core.plugins.host.registry import PluginRegistry
from tests.plugins.world import GROUP, World, plugin_source

SYSTEM = """
from nekro_core.api.signal import MsgSignal

@plugin.mount_on_system_message()
async def hook(_ctx, text):
    {body}
"""
OTHER = ChatKey.parse("web-private_lin")


@pytest.mark.parametrize(
    ("bodies", "trigger", "noted"),
    [
        (["return None"], False, [("done", False)]),
        (["return MsgSignal.FORCE_TRIGGER"], False, [("done", True)]),
        (["return MsgSignal.BLOCK_TRIGGER"], True, [("done", False)]),
        (["return MsgSignal.BLOCK_ALL", "return MsgSignal.FORCE_TRIGGER"], True, []),
        (["raise ValueError", "return 'yes'"], True, [("done", True)]),
        (["assert text == 'done'; await _ctx.push_system('more')"], False, None),
    ],
)
async def test_hooks_decide_whether_a_system_line_is_stored_and_whether_it_wakes_the_chat(
    world: World, bodies: list[str], trigger: bool, noted: list[tuple[str, bool]] | None
) -> None:
    for number, body in enumerate(bodies):
        name = f"p{number}"
        world.write(f"{name}.py", plugin_source(name, more=SYSTEM.format(body=body)))
    async with world.bot() as registry:
        await registry.context_for(GROUP).push_system("done", trigger)
    found = [(text, woken) for _, text, woken in world.journal.notes]
    assert found == ([("more", False), ("done", False)] if noted is None else noted)


RESET = """
import anyio

@plugin.mount_on_channel_reset()
async def forget(_ctx):
    {body}
    await plugin.store.set(store_key="forgot", value=_ctx.chat_key)
"""


async def test_every_plugin_is_called_when_a_chat_is_reset(world: World) -> None:
    for name, body in {"a": "raise OSError", "b": "await anyio.sleep(60)", "c": "pass"}.items():
        world.write(f"{name}.py", plugin_source(name, more=RESET.format(body=body)))
    async with world.bot(message_s=1) as registry:
        await registry.on_channel_reset(registry.context_for(GROUP))
    assert world.plugin_data.kept == {("ann.c", "", "", "forgot"): str(GROUP)}


COLLECT = '''
from nekro_core.api.plugin import SandboxMethod

async def extra(_ctx: AgentCtx) -> str:
    """Not mounted."""
    return "extra"

@plugin.mount_collect_methods()
async def choose(_ctx):
    if _ctx.channel_type == "group":
        return [f, SandboxMethod(SandboxMethodType.AGENT, "more", "", extra)]
    {elsewhere}
'''


async def names_in(registry: PluginRegistry, chat_key: ChatKey = GROUP) -> list[str]:
    tools = await registry.tools_in(registry.context_for(chat_key))
    return [named.name for named in tools.named]


@pytest.mark.parametrize(
    ("elsewhere", "there"),
    [
        ("return [extra]", ["h", "extra"]),
        ("return []", ["h"]),
        ("raise ValueError", ["h"]),
        ("return 5", ["h"]),
        ("return [5]", ["h"]),
    ],
)
async def test_a_plugin_can_choose_which_of_its_tools_a_chat_has(
    world: World, elsewhere: str, there: list[str]
) -> None:
    more = COLLECT.format(elsewhere=elsewhere)
    world.write("a.py", plugin_source("a", "f", "g", more=more))
    world.write("b.py", plugin_source("b", "h"))
    async with world.bot() as registry:
        assert sorted(await names_in(registry)) == ["f", "h", "more"]
        assert sorted(await names_in(registry, OTHER)) == sorted(there)
        ctx = registry.context_for(GROUP)
        assert await registry.tools_in(ctx) is await registry.tools_in(ctx)
        # `tools_for` calls no hook. So it leaves out the tools of a plugin that chooses its tools
        # in a hook.
        assert [each.name for each in registry.tools_for(GROUP).named] == ["h"]
        assert len(registry.plugins()[0].tools) == 2
        await registry.disable("ann.a")
        assert await names_in(registry) == ["h"]


LIFE = """
said = []

@plugin.on_enabled()
async def first():
    raise ValueError

@plugin.on_enabled()
async def second():
    await note("on")

@plugin.on_disabled()
async def last():
    await note("off")

@plugin.mount_cleanup_method()
async def clean():
    await note("clean")

async def note(word):
    kept = await plugin.store.get(store_key="life") or ""
    await plugin.store.set(store_key="life", value=f"{kept} {word} {plugin.is_enabled};")
"""


async def test_the_enabled_and_disabled_hooks_are_called(world: World) -> None:
    world.write("a.py", plugin_source("a", more=LIFE))
    async with world.bot() as registry:
        await registry.disable("ann.a")
    (life,) = world.plugin_data.kept.values()
    assert life == " on True; off True; clean True;"


async def test_tools_beyond_the_limit_are_reported_and_left_out(world: World) -> None:
    flood = plugin_source("a", *(f"f{number}" for number in range(1000)))
    world.write("a.py", flood)
    world.write("b.py", plugin_source("b", "h"))
    async with world.bot(most_tools=50) as registry:
        a, b = registry.plugins()
        assert (len(a.tools), len(b.tools)) == (50, 1)
        told: Any = a.problems[-1]
        assert "it registers 1000 tools, the first 50 are taken" in told.message
        assert len(registry.tools_for(GROUP).named) == 51
