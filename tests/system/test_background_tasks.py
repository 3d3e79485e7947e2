"""Background tasks end with their block. They do not change the error that ends the block."""

import anyio
import pytest

from nekro_core.system.background_tasks import background_tasks


async def test_background_tasks_end_with_their_block() -> None:
    ended = []

    async def live() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    async with background_tasks() as tasks:
        tasks.start_soon(live)
        await anyio.wait_all_tasks_blocked()
    assert ended == [True]


async def test_an_error_of_the_block_is_not_wrapped_in_a_group() -> None:
    async def block() -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await block()


async def test_a_tasks_error_ends_the_block() -> None:
    async def fail() -> None:
        raise ValueError("its")

    async def block() -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(fail)
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert [str(each) for each in caught.value.exceptions] == ["its"]


async def test_a_cancelled_block_leaves_no_task_behind() -> None:
    before = len(anyio.get_running_tasks())
    with anyio.CancelScope() as scope:
        async with background_tasks() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert len(anyio.get_running_tasks()) == before
