"""Runs the tasks of chats, so that all tasks of some chats can be ended together."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup

from nekro_core.chat import ChatKey
from nekro_core.store.ownership import ChatScope


class ChatTasks:
    """The tasks that run for chats. They run in the task group ``tasks``."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._running: dict[ChatKey, set[anyio.CancelScope]] = {}
        self._ended: anyio.Event | None = None
        """Set at the end of the next task. None while nobody waits. An event for each task would
        take 0.8 kB in each chat."""

    def start(self, chat_key: ChatKey, work: Callable[[], Awaitable[object]], *, name: str) -> None:
        """Start a task of a chat."""
        # Keep the scope before the task begins: `end` may be called before the task's first step.
        scope = anyio.CancelScope()
        self._running.setdefault(chat_key, set()).add(scope)
        self._tasks.start_soon(partial(self._run, chat_key, work, scope), name=name)

    async def end(self, chats: ChatScope) -> None:
        """Cancel all tasks of some chats, and wait until they have ended. The caller must not be
        one of these tasks."""
        waited: list[tuple[ChatKey, anyio.CancelScope]] = []
        for chat_key, tasks in self._running.items():
            if chats(chat_key):
                for scope in tasks:
                    scope.cancel()
                    waited.append((chat_key, scope))
        for chat_key, scope in waited:
            while scope in self._running.get(chat_key, ()):
                if self._ended is None:
                    self._ended = anyio.Event()
                await self._ended.wait()

    async def _run(
        self,
        chat_key: ChatKey,
        work: Callable[[], Awaitable[object]],
        scope: anyio.CancelScope,
    ) -> None:
        try:
            with scope:
                await work()
        finally:
            tasks = self._running[chat_key]
            tasks.remove(scope)
            if not tasks:
                del self._running[chat_key]
            if self._ended is not None:
                self._ended.set()
                self._ended = None
