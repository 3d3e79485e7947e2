"""In a `KeyedQueue`, the jobs of a key run in order, and the data of waiting jobs are read in
advance. A `KeyedLimiter` limits how many callers of a key are in its block at the same time."""

from functools import partial

import anyio
import pytest

from nekro_core.system.keyed_queue import FETCHES_AT_ONCE, READ_AHEAD, KeyedLimiter, KeyedQueue


class Reader:
    """Reads when the test allows it, and counts how many reads run at once."""

    def __init__(self) -> None:
        self.open, self.now, self.most = anyio.Event(), 0, 0

    async def read(self, number: int) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.open.wait()
        self.now -= 1
        if number == 3:
            raise ValueError("the third is broken")
        return number


async def test_the_data_of_a_keys_jobs_are_read_concurrently_and_taken_in_order() -> None:
    reader, done = Reader(), list[object]()
    async with anyio.create_task_group() as tasks:
        queue = KeyedQueue(tasks)

        async def say(number: int) -> None:
            reading = queue.prefetch("chat", lambda: reader.read(number))

            async def take() -> None:
                try:
                    done.append(await reading.get())
                except ValueError as error:
                    done.append(str(error))

            await queue.submit("chat", take)

        for number in range(20):
            await say(number)
        await anyio.wait_all_tasks_blocked()
        # The first read belongs to the running job. The others run before their jobs start.
        assert reader.most == READ_AHEAD + 1
        assert done == []
        assert not queue.prefetch("another chat", lambda: reader.read(0)).begun, (
            "an idle key must read as soon as it gets a job"
        )
        reader.open.set()
        await queue.idle()
    assert done == [0, 1, 2, "the third is broken", *range(4, 20)]


async def test_a_key_has_few_fetch_slots_and_other_keys_do_not_wait_for_them() -> None:
    at_once: dict[str, int] = {}
    most: dict[str, int] = {}
    async with anyio.create_task_group() as tasks:
        queue = KeyedQueue(tasks)

        async def fetch(key: str) -> None:
            async with queue.fetch_slot(key):
                at_once[key] = at_once.get(key, 0) + 1
                most[key] = max(most.get(key, 0), at_once[key])
                await anyio.sleep(0.01)
                at_once[key] -= 1

        for _ in range(10):
            tasks.start_soon(fetch, "one")
            tasks.start_soon(fetch, "other")
    assert most == {"one": FETCHES_AT_ONCE, "other": FETCHES_AT_ONCE}


async def test_jobs_of_a_key_run_in_order_and_different_keys_run_concurrently() -> None:
    done: list[tuple[str, int]] = []
    hold = anyio.Event()
    async with anyio.create_task_group() as tasks:
        queue = KeyedQueue(tasks)

        async def job(key: str, number: int) -> None:
            if key == "slow":
                await hold.wait()
            done.append((key, number))
            if number == 1:
                raise ValueError("an error ends its own job alone")

        for number in range(3):
            for key in ("slow", "quick"):
                await queue.submit(key, partial(job, key, number))
        await anyio.wait_all_tasks_blocked()
        assert done == [("quick", 0), ("quick", 1), ("quick", 2)]
        hold.set()
        await queue.idle()
    assert done[3:] == [("slow", 0), ("slow", 1), ("slow", 2)]


async def test_submitting_to_a_full_queue_waits() -> None:
    hold = anyio.Event()
    async with anyio.create_task_group() as tasks:
        queue = KeyedQueue(tasks, capacity=2)
        for key in ("a", "b"):
            await queue.submit(key, hold.wait)
        with anyio.move_on_after(0.05) as waiting:
            await queue.submit("c", hold.wait)
        assert waiting.cancelled_caught
        hold.set()
        await queue.submit("c", hold.wait)
        await queue.idle()


async def test_callers_of_a_key_of_the_limiter_enter_one_after_another() -> None:
    limiter, inside, order = KeyedLimiter(1), 0, list[int]()

    async def enter(number: int) -> None:
        nonlocal inside
        async with limiter.of("room"):
            inside += 1
            assert inside == 1
            await anyio.sleep(0)
            order.append(number)
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(enter, number)
        await anyio.sleep(0)
        assert limiter.callers("room") == len(limiter) == 10
        assert limiter.callers("another room") == 0
    assert order == [*range(10)]
    assert limiter.callers("room") == len(limiter) == 0


async def test_a_key_that_nobody_uses_is_removed_from_the_limiter() -> None:
    limiter = KeyedLimiter(1)
    async with limiter.of("a"), limiter.of("b"):
        assert set(limiter._used) == {"a", "b"}
    with pytest.raises(ValueError, match="broken"):
        async with limiter.of("a"):
            raise ValueError("broken")
    assert not limiter._used
