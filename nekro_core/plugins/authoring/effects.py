"""Undoes a plugin's changes to its bot, and ends the tasks that the plugin started."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from loguru import logger

from nekro_core.plugins.authoring.faults import is_cancellation

Undo = Callable[[], Awaitable[object] | None]
"""A function that undoes one change. An awaitable that it returns is awaited."""


class UndoStack:
    """Holds undo steps. `undo` runs them in reverse order, each step once."""

    def __init__(self) -> None:
        self._undo: dict[object, tuple[str, Undo]] = {}

    def __len__(self) -> int:
        return len(self._undo)

    def add(self, what: str, undo: Undo) -> Callable[[], None]:
        """Add the undo step of a change that was just made. ``what`` names the change in the log.
        The returned function removes the step; call it after undoing the change in another way."""
        step = object()
        self._undo[step] = (what, undo)

        def forget() -> None:
            self._undo.pop(step, None)

        return forget

    async def undo(self, limit_s: float = 1.5) -> None:
        """Run all undo steps. A step that fails or takes longer than ``limit_s`` seconds is logged,
        and the next step runs. Cancelling a surrounding `anyio.CancelScope` does not stop this
        function."""
        while self._undo:
            what, undo = self._undo.pop(next(reversed(self._undo)))
            try:
                with anyio.CancelScope(shield=True), anyio.fail_after(limit_s):
                    left = undo()
                    if inspect.isawaitable(left):
                        await left
            except TimeoutError:
                logger.error("{} is not undone after {:g} s", what, limit_s)
            except BaseException as error:
                if is_cancellation(error):
                    raise
                logger.exception("{} could not be undone", what)


class OwnedTasks:
    """The tasks of one plugin. When the plugin is unloaded, the tasks that still run are cancelled
    and awaited."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def start(
        self, function: Callable[..., Awaitable[object]], *args: Any, name: str = ""
    ) -> asyncio.Task[None]:
        """Run a function in a task of the plugin. An exception is logged and has no other
        effect."""
        task = asyncio.get_running_loop().create_task(
            self._logged(partial(function, *args), name), name=name or None
        )
        self.adopt(task)
        return task

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Add a task that other code started. It is removed when it is done."""
        if not task.done() and task not in self._running:
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def end(self, limit_s: float) -> None:
        """Cancel the running tasks and wait for them. A task that still runs after ``limit_s``
        seconds is named in the log."""
        mine = asyncio.current_task()
        running = {task for task in self._running if task is not mine}
        for task in running:
            task.cancel(f"{self._owner} is unloaded")
        if not running:
            return
        _, stubborn = await asyncio.wait(running, timeout=limit_s)
        for task in stubborn:
            logger.error(
                "plugin {}: {} does not end when it is cancelled; it stands in {}",
                self._owner,
                task.get_name(),
                "; ".join(f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in _stack(task)),
            )

    async def _logged(self, function: Callable[[], Awaitable[object]], name: str) -> None:
        try:
            await function()
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: {} failed", self._owner, name or "a task of it")


def _stack(task: asyncio.Task[Any]) -> list[Any]:
    return task.get_stack(limit=3)
