"""Owns an adapter's tasks between ``start`` and ``aclose``, and retries messages that the store did
not take."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup, TaskStatus
from loguru import logger

from nekro_core.chat import ChatMessage
from nekro_core.store import StoreUnavailable

RETRY_S = (0.2, 1.0, 4.0, 15.0)
"""Pauses before a message that could not be stored is offered again; the last one again and again.
"""


async def accept_patiently(
    accept: Callable[[ChatMessage], Awaitable[None]],
    message: ChatMessage,
    *,
    pauses: Sequence[float] = RETRY_S,
) -> None:
    """Hand a message over, again and again until the store can be written. Its chat waits, and when
    the chat's queue is full the platform is not read. To skip the message would lose it, since
    later ones say how far the history is known. Any other error is raised after the last
    pause: a message that cannot be stored must not silence its chat.

    Args:
        accept: What takes the message, `Host.accept` for one.
        message: The message.
        pauses: Seconds before each further attempt; the last one again and again.
    """
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


class AdapterTasks:
    """The tasks of an adapter, which end with it.

    ``serve`` is entered with a task group of the adapter's own. When the adapter is closed it is
    left, while those tasks still run, so that it can let them finish what they have begun (it
    bounds that itself); then they are cancelled.

    Args:
        serve: Called with a task group; what it gives is entered while the adapter runs.
    """

    def __init__(self, serve: Callable[[TaskGroup], AbstractAsyncContextManager[object]]) -> None:
        self._serve = serve
        self._stop = anyio.Event()
        self._ended: anyio.Event | None = None

    async def start(self, owner: TaskGroup) -> None:
        """Begin in a task of ``owner``, the driver's task group for one; returns once ``serve`` is
        entered, and raises what that raises.

        Args:
            owner: The task group that the adapter's tasks run below.
        """
        await owner.start(self._run)

    async def aclose(self) -> None:
        """End, and wait until it is over. May be called twice, and without a start."""
        self._stop.set()
        if self._ended is not None:
            await self._ended.wait()

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        self._ended = anyio.Event()
        try:
            async with anyio.create_task_group() as tasks:
                async with self._serve(tasks):
                    task_status.started()
                    await self._stop.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._ended.set()
