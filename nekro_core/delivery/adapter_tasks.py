"""What an adapter does between its ``start`` and its ``aclose``, in tasks of its own."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup, TaskStatus


class AdapterTasks:
    """The tasks of an adapter, which end with it.

    ``serve`` is entered with a task group of the adapter's own. When the adapter is closed it is
    left, while those tasks still run, so that it can let them finish what they have begun (it
    bounds that itself); then they are cancelled.
    """

    def __init__(self, serve: Callable[[TaskGroup], AbstractAsyncContextManager[object]]) -> None:
        self._serve = serve
        self._stop = anyio.Event()
        self._ended: anyio.Event | None = None

    async def start(self, owner: TaskGroup) -> None:
        """Begin in a task of ``owner``, the driver's task group for one; returns once ``serve`` is
        entered, and raises what that raises."""
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
