"""Order inside each lane, no waiting between lanes."""

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.system.keyed_limiter import KeyedLimiter

T = TypeVar("T")
Job = Callable[[], Awaitable[None]]

READ_AHEAD = 8
"""Messages of a lane that are read at once: what one waits for, the next ones wait for too, so that
a server which says nothing costs a chat one wait and not one for each message."""
FETCHES_AT_ONCE = 4
"""Media of a lane that are had at once."""


class KeyedQueue:
    """Runs jobs one after another within a lane, and lanes beside each other.

    A job that raises is logged and its lane goes on: one bad message must not silence a chat.

    Args:
        tasks: Where the lanes run.
        capacity: How many jobs may be queued, in all lanes together.
    """

    def __init__(self, tasks: TaskGroup, *, capacity: int = 4096) -> None:
        self._tasks = tasks
        self._capacity = capacity
        self._queues: dict[Hashable, deque[Job]] = {}
        self._ahead = KeyedLimiter(READ_AHEAD)
        self._few = KeyedLimiter(FETCHES_AT_ONCE)
        self._waiting = 0
        self._progress = anyio.Event()

    async def submit(self, lane: Hashable, job: Job) -> None:
        """Queue a job. Waits only while ``capacity`` jobs are queued already.

        Args:
            lane: What the order is kept in: a chat's key for one.
            job: Called with nothing and awaited.
        """
        while self._waiting >= self._capacity:
            await self._progress.wait()
        self._waiting += 1
        queue = self._queues.get(lane)
        if queue is not None:
            queue.append(job)
            return
        self._queues[lane] = deque([job])
        self._tasks.start_soon(self._work, lane)

    def reading(
        self, lane: Hashable, read: Callable[[], Awaitable[T]], *, ahead: bool = True
    ) -> "Prefetch[T]":
        """Have something read that a job of this lane will need. In a lane that waits for other
        jobs it is begun now, beside them, `READ_AHEAD` at once; else, and where nothing is to be
        had from elsewhere (not ``ahead``), when it is asked for.

        Args:
            lane: The lane of the job.
            read: Called with nothing and awaited.
            ahead: Whether it may be begun before it is asked for.

        Returns:
            What the job asks for the value.
        """
        found = Prefetch(read)
        if ahead and lane in self._queues:
            found.begun = True
            self._tasks.start_soon(self._read_ahead, lane, found)
        return found

    def few(self, lane: Hashable) -> AbstractAsyncContextManager[None]:
        """One of the `FETCHES_AT_ONCE` places that a lane has for fetching.

        Args:
            lane: The lane.

        Returns:
            A context manager, entered once a place is free.
        """
        return self._few.of(lane)

    async def _read_ahead(self, lane: Hashable, reading: "Prefetch[T]") -> None:
        async with self._ahead.of(lane):
            await reading.read()

    async def idle(self) -> None:
        """Wait until nothing is queued or running."""
        while self._queues:
            await self._progress.wait()

    async def _work(self, lane: Hashable) -> None:
        queue = self._queues[lane]
        try:
            while queue:
                await self._run(lane, queue[0])
                queue.popleft()
                self._waiting -= 1
                self._step()
        finally:
            self._waiting -= len(queue)
            del self._queues[lane]
            self._step()

    async def _run(self, lane: Hashable, job: Job) -> None:
        try:
            await job()
        except Exception:  # noqa: BLE001 - logged with its traceback; the chat's next message counts
            logger.exception("{}: a message could not be taken in", lane)

    def _step(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()


class Prefetch(Generic[T]):
    """What was or will be read for a job. Made by `KeyedQueue.reading`.

    Args:
        read: Called with nothing and awaited, once.
    """

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._over = anyio.Event()
        self._found: list[T] = []
        self._error: Exception | None = None
        self.begun = False

    async def get(self) -> T:
        """Get what was read, once it is.

        Returns:
            What ``read`` gave.

        Raises:
            Exception: What ``read`` raised, as it is.
        """
        if self.begun:
            await self._over.wait()
        else:
            self.begun = True
            await self.read()
        if self._error is not None:
            raise self._error
        return self._found[0]

    async def read(self) -> None:
        """Read it. What goes wrong is for `get`, whose job it concerns."""
        try:
            self._found.append(await self._read())
        except Exception as error:  # noqa: BLE001 - raised where it is asked for
            self._error = error
        finally:
            self._over.set()
