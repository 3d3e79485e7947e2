"""Keeps a pool of tasks that answer the calls of runs. Each task answers one call after another.

A call arrives in a callback of the event loop. There are two reasons not to start a task for it. In
a callback, anyio can start a task only if anyio itself started the event loop, but here the web
server starts it. And starting a task takes longer than most calls.
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
"""Maximum number of tasks that wait for a call. Most boxes are idle, and the others usually make
one call at a time."""


class Job:
    """Submitted work, which the submitter can cancel."""

    __slots__ = ("cancelled", "context", "scope", "work")

    def __init__(self, work: Work, context: Context) -> None:
        self.work = work
        self.context = context
        self.scope: anyio.CancelScope | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the work. If it has not begun, it does not begin."""
        self.cancelled = True
        if self.scope is not None:
            self.scope.cancel()


class WorkerPool:
    """Runs jobs in tasks of a task group. `close` ends the idle tasks. After that, `ready` may
    start new tasks."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._idle: list[asyncio.Future[Job | None]] = []
        self._waiting: deque[Job] = deque()
        self._wanted = asyncio.Event()
        self._open = False

    def ready(self) -> None:
        """Start the tasks of the pool. Call this in a task, not in a callback, before the first
        `submit`."""
        if not self._open:
            self._open = True
            self._tasks.start_soon(self._spawn, name="hiring of who answers calls")
            self._tasks.start_soon(self._work, name="calls of runs")

    def submit(self, work: Work, context: Context) -> Job:
        """Run ``work`` in ``context``. Returns at once. May be called in a callback."""
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
        """End the idle tasks. Work that runs now continues."""
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
            # This scope is used for all jobs until one is cancelled.
            with anyio.CancelScope() as scope:
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
    """Await ``work``, with every step in ``context``, as a separate task would do."""
    run, step, given = context.run, work.send, None
    try:
        while True:
            waits_for = run(step, given)
            try:
                given = yield waits_for
                step = work.send
            except BaseException as error:  # noqa: BLE001 - it is raised inside the work
                step, given = work.throw, error
    except StopIteration:
        return
