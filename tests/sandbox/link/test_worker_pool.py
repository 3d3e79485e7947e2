"""The tasks of a `WorkerPool` run jobs, which answer the calls of code in boxes. Each job runs in
its own context, and can be cancelled without the others."""

from collections.abc import AsyncIterator
from contextvars import ContextVar, copy_context

import anyio
import pytest

from nekro_core.sandbox.link.worker_pool import WorkerPool

SAID: ContextVar[str] = ContextVar("said", default="nothing")


@pytest.fixture
async def workers() -> AsyncIterator[WorkerPool]:
    async with anyio.create_task_group() as tasks:
        opened = WorkerPool(tasks)
        opened.ready()
        yield opened
        opened.close()  # this also ends the task group


async def test_each_job_runs_in_its_own_context(
    workers: WorkerPool,
) -> None:
    found: list[str] = []
    done = anyio.Event()

    async def look() -> None:
        found.append(SAID.get())
        SAID.set("left behind")
        await anyio.sleep(0)
        found.append(SAID.get())
        if len(found) == 6:
            done.set()

    for word in ("one", "two"):
        SAID.set(word)
        workers.submit(look, copy_context())
    workers.submit(look, copy_context())
    with anyio.fail_after(30):
        await done.wait()
    assert sorted(found) == ["left behind"] * 3 + ["one", "two", "two"]
    assert SAID.get() == "two"


async def test_jobs_run_at_the_same_time(workers: WorkerPool) -> None:
    here, go_on = anyio.Semaphore(0), anyio.Event()

    async def wait_for_all() -> None:
        here.release()
        await go_on.wait()
        here.release()

    for _ in range(50):
        workers.submit(wait_for_all, copy_context())
    with anyio.fail_after(30):
        for _ in range(50):
            await here.acquire()
        go_on.set()
        for _ in range(50):
            await here.acquire()


async def test_cancelling_a_job_does_not_cancel_other_jobs(workers: WorkerPool) -> None:
    began, ended = anyio.Event(), list[str]()
    done = anyio.Event()

    async def hang() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            ended.append("hang")
            raise

    async def careless() -> None:
        job.cancel()  # the job cancels itself and ends before the cancellation arrives
        ended.append("careless")

    async def plain() -> None:
        await anyio.sleep(0)
        ended.append("plain")
        done.set()

    async def never() -> None:
        ended.append("never")

    hanging = workers.submit(hang, copy_context())
    with anyio.fail_after(30):
        await began.wait()
    hanging.cancel()
    job = workers.submit(careless, copy_context())
    workers.submit(never, copy_context()).cancel()
    workers.submit(plain, copy_context())
    with anyio.fail_after(30):
        await done.wait()
    assert sorted(ended) == ["careless", "hang", "plain"]


async def test_a_job_can_catch_a_timeout(workers: WorkerPool) -> None:
    caught: list[str] = []
    done = anyio.Event()

    async def fail() -> None:
        try:
            with anyio.fail_after(0.01):
                await anyio.sleep_forever()
        except TimeoutError:
            caught.append("too late")
        done.set()

    workers.submit(fail, copy_context())
    with anyio.fail_after(30):
        await done.wait()
    assert caught == ["too late"]


async def test_a_closed_pool_can_be_used_again() -> None:
    done = anyio.Event()

    async def do() -> None:
        done.set()

    async with anyio.create_task_group() as tasks:
        workers = WorkerPool(tasks)
        workers.ready()
        await anyio.sleep(0)
        workers.close()
        workers.ready()
        workers.submit(do, copy_context())
        with anyio.fail_after(30):
            await done.wait()
        workers.close()
