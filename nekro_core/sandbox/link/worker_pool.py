"""Tasks that answer the calls of runs. Each task answers one call after another.

A call arrives in a callback of the event loop. There anyio can start a task only if anyio itself
started the loop, and a web server starts its own. Starting a task also takes longer than most
calls.
"""

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any

import anyio
import anyio.abc

Work = Callable[[], Coroutine[Any, Any, None]]

_IDLE = 8
"""Tasks that wait for the next call. Most boxes run one call at a time, and most are idle."""


class Job:
    """One piece of work, as its submitter sees it."""

    __slots__ = ("cancelled", "context", "scope", "work")

    def __init__(self, work: Work, context: Context) -> None:
        self.work = work
        self.context = context
        self.scope: anyio.CancelScope | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """End it. A job that has not begun never begins."""
        self.cancelled = True
        if self.scope is not None:
            self.scope.cancel()


class WorkerPool:
    """Runs jobs in a task group. Its tasks end when it is closed; it may then be used again."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._idle: list[asyncio.Future[Job | None]] = []
        self._waiting: deque[Job] = deque()
        self._wanted = asyncio.Event()
        self._open = False

    def ready(self) -> None:
        """Start a task that waits for a job. Call it from within a task, before the first job."""
        if not self._open:
            self._open = True
            self._tasks.start_soon(self._spawn, name="hiring of who answers calls")
            self._tasks.start_soon(self._work, name="calls of runs")

    def submit(self, work: Work, context: Context) -> Job:
        """Run this work soon, in ``context``. May be called from anywhere."""
        job = Job(work, context)
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(job)
                return job
        self._waiting.append(job)
        self._wanted.set()
        return job

    def close(self) -> None:
        """Start no more work. Running work continues."""
        self._open = False
        self._wanted.set()
        for idle in self._idle:
            if not idle.done():
                idle.set_result(None)
        self._idle.clear()

    async def _spawn(self) -> None:
        while self._open:
            await self._wanted.wait()
            self._wanted.clear()
            for _ in range(len(self._waiting)):
                self._tasks.start_soon(self._work, name="calls of runs")

    async def _work(self) -> None:
        while self._open:
            with anyio.CancelScope() as scope:  # one for all of them, until one is cancelled
                while not scope.cancel_called:
                    if self._waiting:
                        job: Job | None = self._waiting.popleft()
                    elif len(self._idle) < _IDLE and self._open:
                        idle: asyncio.Future[Job | None] = self._loop.create_future()
                        self._idle.append(idle)
                        job = await idle
                    else:
                        job = None
                    if job is None:
                        return
                    if not job.cancelled:
                        job.scope = scope
                        await _do(job.work(), job.context)
                        job.scope = None


@types.coroutine
def _do(work: Coroutine[Any, Any, None], context: Context) -> Generator[Any, Any, None]:
    """Await the work with every step in this context, like a separate task but without one."""
    run, step, given = context.run, work.send, None
    try:
        while True:
            waits_for = run(step, given)
            try:
                given = yield waits_for
                step = work.send
            except BaseException as error:  # noqa: BLE001 - it is the work's to raise or to take
                step, given = work.throw, error
    except StopIteration:
        return
