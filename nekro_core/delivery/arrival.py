"""Order inside each chat, no waiting between chats; and patience with a store that fails."""

import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.chat import ChatMessage
from nekro_core.store import StoreUnavailable

Job = Callable[[], Awaitable[None]]

RETRY_S = (0.2, 1.0, 4.0, 15.0)
"""Pauses before a message that could not be stored is offered again; the last one again and again.
"""


async def accept_patiently(
    accept: Callable[[ChatMessage], Awaitable[None]],
    message: ChatMessage,
    *,
    pauses: Sequence[float] = RETRY_S,
) -> None:
    """Hand a message over, until the store can be written again: its chat waits meanwhile, and when
    a lane is full the platform is not listened to. To pass it over would lose it, since later ones
    say how far the history is known. Another error is raised when the pauses are through: a message
    that cannot be stored must not silence its chat."""
    for tries in itertools.count():
        try:
            return await accept(message)
        except Exception as error:
            if tries >= len(pauses) and not isinstance(error, StoreUnavailable):
                raise
            shown = message.message_id or "-"
            logger.error("{}: message {} not stored: {!r}", message.chat_key, shown, error)
        await anyio.sleep(pauses[min(tries, len(pauses) - 1)])
    return None


class Lanes:
    """Runs jobs one after another within a lane, and lanes beside each other.

    A job that raises is logged and its lane goes on: one bad message must not silence a chat.
    """

    def __init__(self, tasks: TaskGroup, *, capacity: int = 4096) -> None:
        self._tasks = tasks
        self._capacity = capacity
        self._queues: dict[Hashable, deque[Job]] = {}
        self._waiting = 0
        self._progress = anyio.Event()

    async def submit(self, lane: Hashable, job: Job) -> None:
        """Queue a job. Waits only while ``capacity`` jobs are queued already."""
        while self._waiting >= self._capacity:
            await self._progress.wait()
        self._waiting += 1
        queue = self._queues.get(lane)
        if queue is not None:
            queue.append(job)
            return
        self._queues[lane] = deque([job])
        self._tasks.start_soon(self._work, lane)

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
