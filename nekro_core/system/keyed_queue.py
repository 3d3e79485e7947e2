"""Limits how many jobs of a key run at once (`KeyedLimiter`), or runs the jobs of a key in order
(`KeyedQueue`). A key is for example a chat."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from loguru import logger

T = TypeVar("T")
Job = Callable[[], Awaitable[None]]

READ_AHEAD = 8
"""The largest number of reads of a key that run before their jobs need the values. If a server does
not answer, the reads of several messages wait for it at the same time. So the chat waits only once,
and not once for each message."""
FETCHES_AT_ONCE = 4
"""The largest number of downloads of a key that are open at once."""


class KeyedLimiter:
    """Lets at most ``each`` callers of a key run at once. Others wait in the order of arrival.

    The work runs in the caller's task. Use this class if the caller needs the result of the work,
    and `KeyedQueue` if it does not. A key without callers needs no memory.

    Args:
        each: How many callers of a key may run at once. With 1, they run one after another.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._used: dict[Hashable, tuple[anyio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """Wait until the key has a free place, and hold the place while the context lasts.

        Args:
            key: The key, for example a chat key or a host.

        Returns:
            A context manager. Entering it waits until a place is free.
        """
        semaphore, callers = self._used.get(key) or (anyio.Semaphore(self._each), 0)
        self._used[key] = semaphore, callers + 1
        try:
            async with semaphore:
                yield
        finally:
            semaphore, callers = self._used[key]
            if callers > 1:
                self._used[key] = semaphore, callers - 1
            else:
                del self._used[key]

    def callers(self, key: Hashable) -> int:
        """Return how many callers of a key run or wait.

        Args:
            key: The key, for example a chat key or a host.

        Returns:
            Their number; 0 for an unused key.
        """
        return self._used[key][1] if key in self._used else 0

    def __len__(self) -> int:
        """Return how many callers of all keys run or wait."""
        return sum(callers for _, callers in self._used.values())


class KeyedQueue:
    """Runs the jobs of a key one after another, and the jobs of different keys concurrently.

    If a job fails, the error is logged and the next job runs. So one bad message does not block its
    chat.

    Args:
        tasks: The task group that runs the jobs.
        capacity: The largest number of queued jobs of all keys together.
    """

    def __init__(self, tasks: TaskGroup, *, capacity: int = 4096) -> None:
        self._tasks = tasks
        self._capacity = capacity
        self._queues: dict[Hashable, deque[Job]] = {}
        self._reads = KeyedLimiter(READ_AHEAD)
        self._fetches = KeyedLimiter(FETCHES_AT_ONCE)
        self._waiting = 0
        self._progress: anyio.Event | None = None
        """Set after the next job. None while nobody waits: most jobs end without a waiter."""

    async def submit(self, key: Hashable, job: Job) -> None:
        """Queue a job. Waits only while ``capacity`` jobs are queued already.

        Args:
            key: The key whose jobs stay in order, such as a chat key.
            job: Called without arguments and awaited.
        """
        while self._waiting >= self._capacity:
            await self._wait_for_progress()
        self._waiting += 1
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(job)
            return
        self._queues[key] = deque([job])
        self._tasks.start_soon(self._work, key)

    def prefetch(
        self, key: Hashable, read: Callable[[], Awaitable[T]], *, ahead: bool = True
    ) -> "Prefetch[T]":
        """Read a value that a job of this key will need.

        If jobs of the key are queued or running, the read begins now. At most `READ_AHEAD` such
        reads of a key run at once. If the key is idle, the read begins when the job calls
        `Prefetch.get`.

        Args:
            key: The key of the job.
            read: Called without arguments and awaited, once.
            ahead: With False, the read begins only when the job calls `Prefetch.get`. Use this for
                a read that is fast.

        Returns:
            The object whose `Prefetch.get` returns the value to the job.
        """
        prefetch = Prefetch(read)
        if ahead and key in self._queues:
            prefetch.begun = True
            self._tasks.start_soon(self._read_ahead, key, prefetch)
        return prefetch

    def fetch_slot(self, key: Hashable) -> AbstractAsyncContextManager[None]:
        """Hold one of the `FETCHES_AT_ONCE` downloads that a key may have open.

        Args:
            key: The key.

        Returns:
            A context manager. Entering it waits until a place is free.
        """
        return self._fetches.of(key)

    async def _read_ahead(self, key: Hashable, prefetch: "Prefetch[T]") -> None:
        async with self._reads.of(key):
            await prefetch.read()

    async def idle(self) -> None:
        """Wait until no job is queued or running."""
        while self._queues:
            await self._wait_for_progress()

    async def _work(self, key: Hashable) -> None:
        queue = self._queues[key]
        try:
            while queue:
                await self._run(key, queue[0])
                queue.popleft()
                self._waiting -= 1
                self._notify()
        finally:
            self._waiting -= len(queue)
            del self._queues[key]
            self._notify()

    async def _run(self, key: Hashable, job: Job) -> None:
        try:
            await job()
        except Exception:  # noqa: BLE001 - logged with its traceback; the next job must run
            logger.exception("{}: a message could not be processed", key)

    async def _wait_for_progress(self) -> None:
        if self._progress is None:
            self._progress = anyio.Event()
        await self._progress.wait()

    def _notify(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None


class Prefetch(Generic[T]):
    """A value that is read for a job, perhaps before the job asks for it. `KeyedQueue.prefetch`
    makes this object.

    Args:
        read: Called without arguments and awaited, once.
    """

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._ended = False
        self._end: anyio.Event | None = None
        """Set at the end of the read. None while nobody waits for it."""
        self._value: list[T] = []
        self._error: Exception | None = None
        self.begun = False

    async def get(self) -> T:
        """Wait for the value. If the read has not begun, begin it now.

        Returns:
            The value that ``read`` returned.

        Raises:
            Exception: The error that ``read`` raised.
        """
        if not self.begun:
            self.begun = True
            await self.read()
        elif not self._ended:
            if self._end is None:
                self._end = anyio.Event()
            await self._end.wait()
        if self._error is not None:
            raise self._error
        return self._value[0]

    async def read(self) -> None:
        """Read the value. An error is stored and raised by `get`, so that only the job that needs
        the value fails."""
        try:
            self._value.append(await self._read())
        except Exception as error:  # noqa: BLE001 - `get` raises it
            self._error = error
        finally:
            self._ended = True
            if self._end is not None:
                self._end.set()
