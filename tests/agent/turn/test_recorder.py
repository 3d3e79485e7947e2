"""Several tasks can wait until the row of a turn is written."""

import asyncio

import anyio

from nekro_core.agent.turn.recorder import SharedWrite


async def test_a_cancelled_wait_leaves_the_result_to_the_other_waiting_tasks() -> None:
    written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    shared = SharedWrite(written)
    with anyio.move_on_after(0.01) as waited:
        await shared
    assert waited.cancelled_caught
    written.set_result(7)
    assert await shared == 7
    assert await shared == 7
