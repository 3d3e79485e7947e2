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
        self._running: dict[ChatKey, dict[anyio.CancelScope, anyio.Event]] = {}

    def start(self, chat_key: ChatKey, work: Callable[[], Awaitable[object]], *, name: str) -> None:
        """Start a task of a chat."""
        # Keep the scope before the task begins: `end` may be called before the task's first step.
        scope, ended = anyio.CancelScope(), anyio.Event()
        self._running.setdefault(chat_key, {})[scope] = ended
        self._tasks.start_soon(partial(self._run, chat_key, work, scope, ended), name=name)

    async def end(self, chats: ChatScope) -> None:
        """Cancel all tasks of some chats, and wait until they have ended. The caller must not be
        one of these tasks."""
        waited: list[anyio.Event] = []
        for chat_key, tasks in self._running.items():
            if chats(chat_key):
                for scope, ended in tasks.items():
                    scope.cancel()
                    waited.append(ended)
        for ended in waited:
            await ended.wait()

    async def _run(
        self,
        chat_key: ChatKey,
        work: Callable[[], Awaitable[object]],
        scope: anyio.CancelScope,
        ended: anyio.Event,
    ) -> None:
        try:
            with scope:
                await work()
        finally:
            ended.set()
            tasks = self._running[chat_key]
            del tasks[scope]
            if not tasks:
                del self._running[chat_key]
