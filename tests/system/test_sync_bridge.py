"""Synchronous functions can wait for a coroutine of the running event loop."""

import asyncio
import threading
from contextvars import ContextVar

import anyio
import pytest

from nekro_core.system.sync_bridge import CannotWait, run_bridged, wait_for

asked: ContextVar[str] = ContextVar("asked", default="nobody")


async def doubled(number: int) -> int:
    await asyncio.sleep(0.001)
    if number < 0:
        raise ValueError(f"{number} is too small")
    return number * 2


def plain(number: int) -> int:
    return wait_for(doubled(number))


async def test_values_errors_and_context_variables_cross_the_bridge() -> None:
    async def handler() -> tuple[int, str]:
        asked.set("lin")
        with pytest.raises(ValueError, match="-1 is too small"):
            plain(-1)
        await asyncio.sleep(0)
        return plain(plain(1)), asked.get()

    assert await run_bridged(handler()) == (4, "lin")
    assert asked.get() == "lin"


async def test_other_tasks_run_while_a_function_waits() -> None:
    ran = []

    async def other() -> None:
        ran.append(1)

    async def handler() -> int:
        task = asyncio.create_task(other())
        value = plain(3)
        assert ran
        await task
        return value

    assert await run_bridged(handler()) == 6


async def test_a_waiting_function_can_be_cancelled() -> None:
    ended = []

    async def handler() -> None:
        try:
            wait_for(asyncio.sleep(60))
        finally:
            ended.append(1)

    with anyio.move_on_after(0.01) as limit:
        await run_bridged(handler())
    assert limit.cancelled_caught
    assert ended

    async def inside() -> int:
        with anyio.move_on_after(0.01):
            wait_for(asyncio.sleep(60))
        return plain(2)

    assert await run_bridged(inside()) == 4


async def test_bridges_work_inside_bridges_and_threads() -> None:
    async def inner() -> int:
        return plain(1)

    async def outer() -> tuple[int, int]:
        return await run_bridged(inner()), await asyncio.to_thread(plain, 5)

    assert await run_bridged(outer()) == (2, 10)


async def test_waiting_outside_a_bridge_is_an_error() -> None:
    async def apart() -> None:
        plain(1)

    async def handler() -> None:
        await asyncio.create_task(apart())

    with pytest.raises(CannotWait, match="own coroutine"):
        await run_bridged(handler())
    failures: list[BaseException] = []

    def alone() -> None:
        try:
            plain(1)
        except CannotWait as error:
            failures.append(error)

    thread = threading.Thread(target=alone)
    thread.start()
    thread.join()
    assert failures
