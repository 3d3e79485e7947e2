"""Several tasks can wait until the row of a turn is written."""

import asyncio
import gc
from typing import Any

import anyio
import anyio.lowlevel

from nekro_core.agent.turn.recorder import SharedWrite
from nekro_core.store import StoreUnavailable


async def test_a_cancelled_wait_leaves_the_result_to_the_other_waiting_tasks() -> None:
    written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    shared = SharedWrite(written)
    with anyio.move_on_after(0.01) as waited:
        await shared
    assert waited.cancelled_caught
    written.set_result(7)
    assert await shared == 7
    assert await shared == 7


async def test_a_failure_for_which_nobody_waits_is_not_logged() -> None:
    async def fails() -> int:
        raise StoreUnavailable("the store is closed")

    logged: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: logged.append(context))
    try:
        SharedWrite(fails())
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        gc.collect()
    finally:
        loop.set_exception_handler(before)
    assert logged == []
