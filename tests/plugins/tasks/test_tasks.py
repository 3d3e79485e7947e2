"""Background tasks of a plugin continue after the call that started them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from nekro_core.plugins.authoring.tasks import AsyncTaskHandle, TaskCtl, TaskSignal, WaitCancelled
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.plugins.tasks.functions import task
from nekro_core.plugins.tasks.runner import MAX_RUNNING
from nekro_core.tools.outcome import ToolCallFailed, ToolReturn
from tests.plugins.world import GROUP, World

CODE = '''
import anyio
from nekro_core.api.plugin import *
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("Film", "film", author="me")
told = []

@plugin.mount_async_task("render")
async def render(handle: AsyncTaskHandle, name: str, frames: int = 2):
    for number in range(frames):
        yield TaskCtl.report_progress(f"frame {number}", percent=100 * number / frames)
    size = await handle.wait("size", timeout=5)
    await handle.notify_agent(f"{name} is ready: {size}")
    yield TaskCtl.success("done", data={"name": name, "size": size})
    told.append("never")

@plugin.mount_async_task("endless")
async def endless(handle):
    try:
        await anyio.sleep_forever()
    finally:
        told.append("swept")
    yield

@plugin.mount_async_task("broken")
async def broken(handle):
    yield TaskCtl.report_progress("well")
    raise RuntimeError("no more film")

@plugin.mount_async_task("odd")
async def odd(handle):
    yield "a text"

@plugin.mount_async_task("plain")
async def plain(handle):
    return TaskCtl.fail("not today", error="rain")

@plugin.mount_async_task("empty")
async def empty(handle):
    return
    yield

@plugin.mount_async_task("late")
async def late(handle):
    await handle.wait("nothing", timeout=0.01)
    yield

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "begin", "Begin.")
async def begin(_ctx: AgentCtx, kind: str, name: str, ) -> str:
    """Begin a task."""
    async def ended(last: TaskCtl) -> None:
        told.append((name, str(last.signal), last.message))
    extra = {"name": name} if kind == "render" else {}
    handle = await task.start(kind, name, _ctx.chat_key, plugin, on_terminal=ended, **extra)
    assert task.get_handle(kind, name) is handle and task.is_running(name)
    return handle.task_id

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "off", "Call it off.")
async def off(_ctx: AgentCtx, name: str) -> bool:
    """Call a task off."""
    return await task.cancel(task_id=name)
'''


class Film:
    """A running plugin that has tasks."""

    def __init__(self, world: World, plugins: PluginRegistry) -> None:
        self.world = world
        self.plugins = plugins
        self.tasks = world.services.tasks

    async def tool(self, name: str, *args: Any) -> Any:
        found = self.plugins.tools_for(GROUP).resolve(name)
        assert found is not None
        match await call_tool(found, self.world.ctx(), args):
            case ToolReturn(value):
                return value
            case ToolCallFailed(message):
                raise AssertionError(message)

    @property
    def told(self) -> list[Any]:
        """The list in which the plugin's module records what happened."""
        tool = self.plugins.tools_for(GROUP).resolve("begin")
        assert tool is not None
        return tool.handler.__globals__["told"]  # type: ignore[attr-defined]  # a function has them

    async def ended(self, name: str) -> TaskCtl:
        with anyio.fail_after(30):
            while self.tasks.is_running(name):
                await anyio.sleep(0.001)
        last = self.tasks.get_state(name)
        assert last is not None
        return last


@asynccontextmanager
async def film(folder: Path) -> AsyncIterator[Film]:
    world = World(folder)
    world.write("film.py", CODE)
    async with world.bot() as plugins:
        yield Film(world, plugins)


async def test_a_task_continues_and_reports_to_the_chat(tmp_path: Path) -> None:
    async with film(tmp_path) as at:
        assert await at.tool("begin", "render", "cat") == "cat"
        handle = at.tasks.get_handle("render", "cat")
        assert handle is not None
        with anyio.fail_after(30):
            while handle.state is None or handle.state.message != "frame 1":
                await anyio.sleep(0.001)
        assert handle.state.percent == 50
        assert handle.notify("size", "4 MB")
        last = await at.ended("cat")
        assert last == TaskCtl.success("done", data={"name": "cat", "size": "4 MB"})
        assert at.world.journal.notes == [(GROUP, "cat is ready: 4 MB", True)]
        assert at.told == [("cat", "success", "done")]
        assert at.tasks.get_running_tasks() == []


@pytest.mark.parametrize(
    ("kind", "signal", "message"),
    [
        ("broken", TaskSignal.FAIL, "RuntimeError: no more film"),
        ("odd", TaskSignal.FAIL, "TypeError: it gives a str, expected TaskCtl"),
        ("plain", TaskSignal.FAIL, "not today"),
        ("empty", TaskSignal.SUCCESS, ""),
        ("late", TaskSignal.FAIL, "TimeoutError: "),
    ],
)
async def test_a_task_reports_how_it_ended(
    tmp_path: Path, kind: str, signal: TaskSignal, message: str
) -> None:
    async with film(tmp_path) as at:
        await at.tool("begin", kind, "x")
        last = await at.ended("x")
        assert (last.signal, last.message) == (signal, message)
        assert at.told == [("x", str(signal), message)]


async def test_a_task_can_be_cancelled(tmp_path: Path) -> None:
    async with film(tmp_path) as at:
        await at.tool("begin", "endless", "x")
        await anyio.wait_all_tasks_blocked()
        handle = at.tasks.get_handle(task_id="x")
        assert handle is not None
        assert not handle.is_cancelled
        assert not handle.is_cancelled()
        assert await at.tool("off", "x") is True
        assert (await at.ended("x")).signal is TaskSignal.CANCEL
        assert handle.is_cancelled
        assert handle.is_cancelled()
        assert at.told == ["swept", ("x", "cancel", "called off")]
        assert await at.tool("off", "x") is False
        await at.tool("begin", "endless", "y")
        assert at.tasks.stop_all() == 1


async def test_unknown_repeated_and_too_many_tasks_are_refused(tmp_path: Path) -> None:
    async with film(tmp_path) as at:
        with pytest.raises(AssertionError, match="TaskRefused"):
            await at.tool("begin", "nothing", "x")
        await at.tool("begin", "endless", "x")
        with pytest.raises(AssertionError, match="TaskRefused"):
            await at.tool("begin", "endless", "x")
        for number in range(MAX_RUNNING - 1):
            await at.tool("begin", "endless", str(number))
        with pytest.raises(AssertionError, match="TaskRefused"):
            await at.tool("begin", "endless", "one more")


async def test_unloading_a_plugin_ends_its_tasks(tmp_path: Path) -> None:
    async with film(tmp_path) as at:
        for _ in range(3):
            await at.tool("begin", "endless", "x")
            await at.tool("begin", "empty", "y")
            await at.ended("y")
            await anyio.wait_all_tasks_blocked()
            told = at.told
            await at.tool("begin", "endless", "only just begun")
            await at.plugins.disable("me.film")
            assert told.count("swept") == 2
            assert ("x", "cancel", "called off") in told
            assert at.tasks.get_running_tasks() == []
            assert at.tasks.get_state("y") is None
            assert at.tasks.get_state("x") is None
            await at.plugins.enable("me.film")


async def test_a_handle_keeps_values_until_the_task_waits_for_them() -> None:
    handle = AsyncTaskHandle("x", str(GROUP), ModuleType("plugin"))  # type: ignore[arg-type]  # unused
    assert handle.notify("early", 7)
    assert await handle.wait("early") == 7
    assert not handle.cancel_wait("early")
    with pytest.raises(TimeoutError):
        await handle.wait("late", timeout=0)
    assert all(handle.notify(str(number)) for number in range(64))
    assert not handle.notify("one more")
    handle.cancel_all()
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(WaitCancelled):
                await handle.wait("never")

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert handle.cancel_wait("never")
    with pytest.raises(RuntimeError, match="belongs to no bot"):
        await handle.notify_agent("hello")


def test_asking_for_the_task_runner_outside_a_bot_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no bot is known here"):
        task.runner()
