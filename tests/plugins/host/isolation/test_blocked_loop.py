"""Code that blocks the event loop is named in the log, once. Code that waits with ``await`` is not
named."""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio
import pytest
from loguru import logger

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.isolation.blocked_loop import watch_event_loop
from nekro_core.plugins.host.tool_calls import call_tool
from tests.plugins.world import World
from tests.tools.make import tool_of

if TYPE_CHECKING:
    import loguru


noticed = threading.Event()


async def blocks(_ctx: AgentCtx) -> str:
    """Block the event loop until the test has seen the line in the log."""
    noticed.wait(30)
    return "done"


async def waits(_ctx: AgentCtx) -> str:
    """Wait with ``await``, as a plugin should."""
    await anyio.sleep(0.5)
    return "done"


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    noticed.clear()

    def keep(message: "loguru.Message") -> None:
        found.append(message.record["message"])
        noticed.set()

    sink = logger.add(keep, level="WARNING")
    yield found
    logger.remove(sink)


async def test_a_handler_that_blocks_is_named_once_with_its_line(
    world: World, lines: list[str]
) -> None:
    with watch_event_loop(0.1):
        await call_tool(tool_of(blocks), world.ctx())
        with anyio.fail_after(30):
            while len(lines) < 2:
                await anyio.sleep(0.01)
    named, goes_on = lines
    assert named.startswith("ann.mod's blocks (")
    assert "called for onebot_v11-group_30003, has blocked the event loop for " in named
    line = blocks.__code__.co_firstlineno + 2
    assert f"{__file__}:{line} in blocks" in named
    assert goes_on.startswith("the event loop goes on after ")


async def test_a_handler_that_awaits_is_not_named(world: World, lines: list[str]) -> None:
    with watch_event_loop(0.25):
        await call_tool(tool_of(waits), world.ctx())
    assert lines == []


async def test_blocking_code_outside_plugins_is_shown_by_its_stack(lines: list[str]) -> None:
    with watch_event_loop(0.1):
        await anyio.sleep(0)
        noticed.wait(30)
        await anyio.sleep(0.1)
    assert lines[0].startswith("something has blocked")
    assert f"{__file__}:" in lines[0]


async def test_watching_the_event_loop_leaves_no_thread() -> None:
    # A thread of an earlier test may end meanwhile.
    before = {*threading.enumerate()}
    with watch_event_loop(0.1):
        assert len({*threading.enumerate()} - before) == 2
    assert {*threading.enumerate()} <= before
