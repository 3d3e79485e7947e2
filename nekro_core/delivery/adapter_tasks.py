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
"""Pauses in seconds before each further attempt to store a message; the last one repeats."""


async def accept_patiently(
    accept: Callable[[ChatMessage], Awaitable[None]],
    message: ChatMessage,
    *,
    pauses: Sequence[float] = RETRY_S,
) -> None:
    """Hand a message over, and repeat until the store can be written. Meanwhile its chat waits;
    when the chat's queue is full, the platform is not read. A skipped message would be lost, since
    the time of later ones says how far the history is known. Any other error is raised after the
    last pause, so that a message that cannot be stored does not block its chat.

    Args:
        accept: The function that takes the message, such as `Host.accept`.
        message: The message.
        pauses: Seconds before each further attempt; the last one repeats.
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

    The context that ``serve`` returns gets a task group for the adapter's tasks. It is left when
    the adapter is closed, while those tasks still run. So it can let them finish their work, within
    a bound that it sets. Then the tasks are cancelled.

    Args:
        serve: Called with a task group; returns the context that is entered while the adapter runs.
    """

    def __init__(self, serve: Callable[[TaskGroup], AbstractAsyncContextManager[object]]) -> None:
        self._serve = serve
        self._stop = anyio.Event()
        self._ended: anyio.Event | None = None

    async def start(self, owner: TaskGroup) -> None:
        """Begin in a task of ``owner``, such as the driver's task group. Returns once the context
        of ``serve`` is entered, and raises its errors.

        Args:
            owner: The task group that the adapter's tasks run below.
        """
        await owner.start(self._run)

    async def aclose(self) -> None:
        """Stop, and wait for the end. May be called twice, and without a start."""
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
