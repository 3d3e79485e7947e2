"""If a plugin fails in a hook, the log names the plugin, and other plugins work as before."""

import asyncio
from collections.abc import Iterator

import pytest
from loguru import logger

from nekro_core.chat import ChatMessage, Sender, Text
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.host.hooks import hook_result
from nekro_core.plugins.host.isolation.blocked_loop import watch_event_loop
from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import ToolCallFailed, ToolReturn
from tests.plugins.world import GROUP, World, plugin_source

MESSAGE = ChatMessage(
    chat_key=GROUP,
    message_id="1",
    sender=Sender("10001"),
    segments=(Text("hello"),),
    time=1.0,
    account="20002",
)
EVERY_HOOK = """
def wrong(*args, **more):
    {body}

async def late(*args, **more):
    wrong()

plugin.on_enabled()(late)
plugin.on_disabled()(wrong)
plugin.mount_cleanup_method()(late)
plugin.mount_prompt_inject_method("p")(late)
plugin.mount_on_user_message()(wrong)
plugin.mount_on_system_message()(late)
plugin.mount_on_channel_reset()(late)
plugin.mount_collect_methods()(late)
"""
GOOD = """
from nekro_core.api.signal import MsgSignal

@plugin.mount_prompt_inject_method("p")
async def prompt(_ctx):
    return "good"

@plugin.mount_on_user_message()
async def heard(_ctx, message):
    return MsgSignal.FORCE_TRIGGER

@plugin.mount_on_channel_reset()
async def reset(_ctx):
    await plugin.store.set(store_key="reset", value="yes")
"""


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    sink = logger.add(lambda message: found.append(message.record["message"]), level="WARNING")
    yield found
    logger.remove(sink)


@pytest.mark.parametrize(
    "body",
    [
        "raise RuntimeError('no')",
        "raise KeyboardInterrupt",
        "raise SystemExit(3)",
        "raise __import__('asyncio').CancelledError",
        "raise GeneratorExit",
        "raise ExceptionGroup('several', [ValueError()])",
        "return object()",
        "raise type('Odd', (BaseException,), {'__str__': lambda self: 1 / 0})()",
    ],
)
async def test_a_plugin_that_fails_in_every_hook_does_not_disturb_others(
    world: World, lines: list[str], body: str
) -> None:
    world.write("a.py", plugin_source("a", "f", more=EVERY_HOOK.format(body=body)))
    world.write("b.py", plugin_source("b", "g", more=GOOD))
    async with world.bot() as registry:
        a, b = registry.plugins()
        assert (a.state, b.state) == (PluginState.LOADED, PluginState.LOADED)
        ctx = registry.context_for(GROUP)
        assert [each.text for each in await registry.prompt_injections(ctx)] == ["good"]
        given = await registry.on_user_message(ctx, MESSAGE)
        assert given.signal is MsgSignal.FORCE_TRIGGER
        await ctx.push_system("line")
        await registry.on_channel_reset(ctx)
        assert [each.name for each in (await registry.tools_in(ctx)).named] == ["g"]
        await registry.disable("ann.a")
        assert registry.plugins()[0].state is PluginState.DISABLED
    assert [text for _, text, _ in world.journal.notes] == ["line"]
    assert ("ann.b", "", "", "reset") in world.plugin_data.kept
    if "return" not in body:
        assert all("plugin ann.a: " in line for line in lines)
        assert len(lines) >= 8


async def test_an_init_that_blocks_is_interrupted(world: World, lines: list[str]) -> None:
    more = "\n@plugin.mount_init_method()\nasync def init():\n    while True:\n        pass\n"
    world.write("a.py", plugin_source("a", "f", more=more))
    world.write("b.py", plugin_source("b", "g"))
    with watch_event_loop(0.1, 0.3):
        async with world.bot() as registry:
            a, b = registry.plugins()
            assert (a.state, b.state) == (PluginState.BROKEN, PluginState.LOADED)
            assert "LoopBlocked: it blocked the event loop for" in a.problems[0].message
            tool = registry.tools_for(GROUP).resolve("g")
            assert tool is not None
            assert isinstance(await call_tool(tool, world.ctx()), ToolReturn | ToolCallFailed)
    # On a busy machine, the thread that watches the loop may notice the block only when it must
    # interrupt it. So one log line about the block is enough.
    assert any(line.startswith("plugin local/a ") and "blocked the" in line for line in lines)


@pytest.mark.parametrize("again", [False, True])
async def test_a_hook_whose_coroutine_is_closed_ends(
    world: World, lines: list[str], again: bool
) -> None:
    """At the end of an event loop, unfinished coroutines are closed. The hook must then end."""
    ended = []

    async def method() -> None:
        try:
            await asyncio.sleep(60)
        except GeneratorExit:
            ended.append("closed")
            if again:
                raise GeneratorExit from None
            raise

    world.write("a.py", plugin_source("a", "f"))
    async with world.bot() as registry:
        plugin = next(iter(registry._entries.values())).plugin
        assert plugin is not None
        hook = hook_result(plugin, "its method", method, 60)
        hook.send(None)
        hook.close()
    assert (ended, lines) == (["closed"], [])
