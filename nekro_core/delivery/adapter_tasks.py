"""Owns an adapter's tasks between ``start`` and ``aclose``, and retries messages that could not be
stored."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup, TaskStatus
from loguru import logger

from nekro_core.chat import ChatMessage
from nekro_core.store import StoreUnavailable

RETRY_S = (0.2, 1.0, 4.0, 15.0)
"""Seconds to wait before each further attempt to store a message. The last number is used for all
later attempts too."""


async def accept_patiently(
    accept: Callable[[ChatMessage], Awaitable[None]],
    message: ChatMessage,
    *,
    pauses: Sequence[float] = RETRY_S,
) -> None:
    """Pass a message to ``accept``, and repeat while the store cannot be written. Meanwhile the
    later messages of the chat wait; when the chat's queue is full, the adapter stops reading from
    the platform. A message must not be skipped: the adapter fetches missed messages after the time
    of the newest stored message, so a skipped message would never be fetched. An error other than
    `StoreUnavailable` is raised after the last pause, so that a message that cannot be stored does
    not block its chat.

    Args:
        accept: The function that stores the message, such as `Host.accept`.
        message: The message.
        pauses: Seconds before each further attempt; the last number is used for all later attempts.
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
    """The tasks of an adapter. They end when the adapter is closed.

    ``serve`` gets a task group for the adapter's tasks and returns a context. `aclose` leaves this
    context while the tasks run. The exit of the context may wait until the tasks have ended; it
    chooses how long it waits. Tasks that run after the exit are cancelled.

    Args:
        serve: Gets the task group and returns the context that is active while the adapter runs.
    """

    def __init__(self, serve: Callable[[TaskGroup], AbstractAsyncContextManager[object]]) -> None:
        self._serve = serve
        self._stop = anyio.Event()
        self._ended: anyio.Event | None = None

    async def start(self, owner: TaskGroup) -> None:
        """Start a task in ``owner``, such as the driver's task group. Returns when the context of
        ``serve`` is entered. If entering the context fails, this method raises the error.

        Args:
            owner: The parent task group of the adapter's tasks.
        """
        await owner.start(self._run)

    async def aclose(self) -> None:
        """Stop the tasks and wait for their end. May be called twice, or without `start`."""
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
