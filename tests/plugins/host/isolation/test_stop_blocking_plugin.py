"""A plugin that blocks the event loop is interrupted. Its tasks end when it is unloaded."""

import asyncio
import contextvars
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from loguru import logger

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.isolation.blocked_loop import watch_event_loop
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import ToolCallFailed, ToolReturn
from tests.plugins.world import GROUP, World, plugin_source
from tests.tools.make import tool_of

BLOCKS = '''
import asyncio
import socket
import time

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "block", "")
async def block(_ctx: AgentCtx) -> str:
    """Never come back."""
    {body}
'''
LOOPS = "while True:\n        pass"
SWALLOWS = """while True:
        try:
            time.sleep(0.01)
        except Exception:
            pass"""
WAITS = "time.sleep(600)"
LISTENS = """with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()"""
IN_A_TASK = """async def forever():
        time.sleep(600)
    await asyncio.create_task(forever())"""


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    sink = logger.add(lambda message: found.append(message.record["message"]), level="WARNING")
    yield found
    logger.remove(sink)


async def called(registry: PluginRegistry, world: World, name: str) -> object:
    tool = registry.tools_for(GROUP).resolve(name)
    assert tool is not None
    return await call_tool(tool, world.ctx())


async def test_a_regular_expression_that_holds_pythons_lock_is_interrupted(
    world: World, lines: list[str]
) -> None:
    """The regular expression holds Python's lock (the GIL), so the thread that watches the loop
    must wait."""
    body = 'import re\n    re.search(r"(a+)+$", "a" * 60 + "!")'
    world.write("a.py", plugin_source("a", "fine", more=BLOCKS.format(body=body)))
    with watch_event_loop(0.1, 0.3):
        async with world.bot() as registry:
            outcome = await called(registry, world, "block")
            assert isinstance(outcome, ToolCallFailed)
            assert "block failed with LoopBlocked: it blocked the event loop for" in outcome.message
            assert isinstance(await called(registry, world, "fine"), ToolReturn)
    # The watching thread and the main thread log at the same time, so other lines may come between.
    named, broken_off = [line for line in lines if line.startswith(("ann.a", "plugin local/a"))][:2]
    assert named.startswith("ann.a's block (")
    assert "has blocked the event loop for" in named
    assert "a.py:20 in block" in named
    assert broken_off.startswith("plugin local/a is broken off, it blocked the loop for ")
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@pytest.mark.parametrize("body", [LOOPS, SWALLOWS, WAITS, LISTENS, IN_A_TASK])
async def test_a_plugin_that_blocks_is_interrupted(
    world: World, lines: list[str], body: str
) -> None:
    world.write("a.py", plugin_source("a", "fine", more=BLOCKS.format(body=body)))
    with watch_event_loop(0.1, 0.3):
        async with world.bot() as registry:
            outcome = await called(registry, world, "block")
            assert isinstance(outcome, ToolCallFailed)
            assert "block failed with LoopBlocked: it blocked the event loop for" in outcome.message
            assert isinstance(await called(registry, world, "fine"), ToolReturn)
    first, second = [line for line in lines if line.startswith(("ann.a", "plugin local/a"))][:2]
    assert first.startswith(("ann.a's block (", "plugin local/a has blocked"))
    assert second.startswith("plugin local/a is broken off, it blocked the loop for ")


async def test_a_plugin_that_blocks_while_it_logs_is_interrupted(
    world: World, lines: list[str]
) -> None:
    """The signal arrives while the main thread holds the lock of loguru's sink."""

    def blocks(message: Any) -> None:
        while message.record["message"] == "block here":
            pass

    body = 'from loguru import logger\n    logger.info("block here")'
    world.write("a.py", plugin_source("a", "fine", more=BLOCKS.format(body=body)))
    sink = logger.add(blocks, level="INFO", catch=False)
    try:
        with watch_event_loop(0.1, 0.3):
            async with world.bot() as registry:
                outcome = await called(registry, world, "block")
    finally:
        logger.remove(sink)
    assert isinstance(outcome, ToolCallFailed)
    assert "block failed with LoopBlocked: it blocked the event loop for" in outcome.message
    assert [line for line in lines if line.startswith("plugin local/a is ")]


async def test_the_bots_own_code_is_never_interrupted(world: World, lines: list[str]) -> None:
    async def slow(_ctx: AgentCtx) -> str:
        """A slow function of the bot itself."""
        time.sleep(0.8)
        return "done"

    with watch_event_loop(0.1, 0.2):
        assert await call_tool(tool_of(slow), world.ctx()) == ToolReturn("done")
    assert not [line for line in lines if "broken off" in line]


def test_a_blocking_plugin_is_interrupted_on_uvloop(world: World) -> None:
    world.write("a.py", plugin_source("a", more=BLOCKS.format(body=LOOPS)))
    seen: list[object] = []

    async def bot() -> None:
        with watch_event_loop(0.1, 0.3):
            async with world.bot() as registry:
                seen.append(await called(registry, world, "block"))
                seen.append(await called(registry, world, "block"))

    # A new context is needed: the tests' context says that an event loop is running.
    contextvars.Context().run(lambda: anyio.run(bot, backend_options={"use_uvloop": True}))
    assert [type(each) for each in seen] == [ToolCallFailed, ToolCallFailed]
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


async def test_watching_an_event_loop_outside_the_main_thread_sets_no_signal_handler() -> None:
    def other() -> None:
        async def watch() -> None:
            with watch_event_loop(0.1, 0.1):
                assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL

        asyncio.run(watch())

    thread = threading.Thread(target=other)
    thread.start()
    await anyio.to_thread.run_sync(thread.join)


TASKS = '''
import asyncio

async def forever(name):
    try:
        await asyncio.sleep(3600)
    finally:
        await plugin.store.set(store_key=name, value="ended")

@plugin.mount_init_method()
async def init():
    asyncio.create_task(forever("init"), name="of init")

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "start", "")
async def start(_ctx: AgentCtx) -> str:
    """Start tasks."""
    plugin.started = asyncio.ensure_future(forever("tool"))
    plugin.started.set_name("of a tool")
    asyncio.get_running_loop().call_soon(later)
    await _ctx.send_text("go")

    async def inner():
        asyncio.create_task(forever("inner"), name="of a task")
    await asyncio.gather(inner())
    return "started"

def later():
    asyncio.create_task(forever("later"), name="of a callback")
'''
NAMES = ["of a callback", "of a task", "of a tool", "of init"]


def running() -> list[str]:
    return sorted(
        task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("of ")
    )


async def test_unloading_a_plugin_ends_its_tasks_and_no_other_tasks(world: World) -> None:
    world.write("a.py", plugin_source("a", more=TASKS))
    async with anyio.create_task_group() as group:

        async def send(*args: object, **more: object) -> tuple[()]:
            # A call of the plugin makes the bot start a task. The task belongs to the bot.
            group.start_soon(anyio.sleep_forever, name="the bot's")
            return ()

        world.outgoing.send = send  # type: ignore[assignment,method-assign]  # a fake
        async with world.bot() as registry:
            assert isinstance(await called(registry, world, "start"), ToolReturn)
            with anyio.fail_after(30):
                while running() != NAMES:
                    await anyio.sleep(0.01)
            await registry.disable("ann.a")
            assert running() == []
            kept = {key[3]: value for key, value in world.plugin_data.kept.items()}
            assert kept == dict.fromkeys(("init", "tool", "inner", "later"), "ended")
        names = [task.get_name() for task in asyncio.all_tasks()]
        group.cancel_scope.cancel()
    assert "the bot's" in names


STUBBORN = """
import asyncio

async def stays():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if plugin.version == "done":
                raise

@plugin.mount_init_method()
async def init():
    plugin.task = asyncio.create_task(stays(), name="stubborn")
"""


async def test_a_task_that_ignores_cancellation_is_reported_and_not_waited_for(
    world: World, lines: list[str]
) -> None:
    world.write("a.py", plugin_source("a", more=STUBBORN))
    async with world.bot(cleanup_s=0.1) as registry:
        (plugin,) = registry._plugins_of(registry.context_for(GROUP))
        await registry.disable("ann.a")
    assert "local/a: stubborn does not end when it is cancelled; it stands in" in lines[-1]
    plugin.version = "done"
    task = vars(plugin)["task"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
