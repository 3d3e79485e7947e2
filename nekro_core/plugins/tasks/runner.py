"""Runs the background tasks of plugins in one bot. Tasks end with the bot, and the next start
reports this to their chats."""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.authoring.tasks import (
    AsyncTaskHandle,
    AwaitableBool,
    AwaitableInt,
    NoteWriter,
    OnTerminal,
    TaskCtl,
    TaskOwner,
    TaskType,
)
from nekro_core.plugins.tasks.interrupted import RunningTaskRecords
from nekro_core.store.ownership import ChatScope
from nekro_core.system.errors import NekroError

MAX_RUNNING = 64
"""Maximum number of tasks of one plugin at one time. A plugin that needs more has a leak."""
_MAX_ENDED = 256
"""Maximum number of ended tasks whose final reports are remembered."""
_TOLD_S = 1.0
"""Maximum number of seconds that ``on_terminal`` may take."""

_Key = tuple[str, str]


class TaskRefused(NekroError):
    """The task was not started. The message says why."""


class _Running(msgspec.Struct):
    handle: AsyncTaskHandle
    task: "asyncio.Task[None] | None" = None


class TaskRunner:
    """Runs tasks. A task is identified by its type and its id. If only the id is given, the first
    task with this id is meant.

    Args:
        kept: Stores which tasks run, so that the next start can report them; None stores nothing.
    """

    def __init__(self, kept: RunningTaskRecords | None = None) -> None:
        self._kept = kept or RunningTaskRecords()
        self._running: dict[_Key, _Running] = {}
        self._ended: OrderedDict[_Key, tuple[TaskCtl, Callable[[], None]]] = OrderedDict()

    def start(
        self,
        task_type: str,
        task_id: str,
        chat_key: str,
        plugin: TaskOwner,
        journal: NoteWriter,
        *args: Any,
        on_terminal: OnTerminal | None = None,
        **kwargs: Any,
    ) -> AsyncTaskHandle:
        """Start a task of the plugin. It is cancelled when the plugin is unloaded.

        Args:
            task_type: The name under which the plugin mounted the task's function.
            task_id: Distinguishes tasks of the same type.
            chat_key: The text form of the chat's key.
            plugin: The plugin object.
            journal: Stores the lines that the handle adds for the agent.
            *args: Arguments of the task's function, after its handle.
            on_terminal: Called with the task's final report; may be async, and may take 1 s.
            **kwargs: Keyword arguments of the task's function.

        Returns:
            The task's handle.

        Raises:
            TaskRefused: The plugin has no such task type, the task already runs, or the plugin has
                64 running tasks.
        """
        kinds = {each.name: each for each in plugin.declared if isinstance(each, TaskType)}
        if task_type not in kinds:
            known = ", ".join(sorted(kinds)) or "none"
            raise TaskRefused(f"{plugin.key} has no task {task_type!r}; it has {known}")
        key = (task_type, task_id)
        if key in self._running:
            raise TaskRefused(f"{task_type} {task_id!r} runs already")
        if sum(each.handle.plugin is plugin for each in self._running.values()) >= MAX_RUNNING:
            raise TaskRefused(f"{plugin.key} has {MAX_RUNNING} tasks that run: no more at one time")
        handle = AsyncTaskHandle(task_id, chat_key, plugin, task_type=task_type, journal=journal)
        entry = self._running[key] = _Running(handle)
        forget = plugin.effects.add(f"task {task_id}", partial(_drop, self._running, key))

        async def run() -> None:
            last = cut = TaskCtl.cancel("called off")
            try:
                last = await _worked(kinds[task_type], handle, args, kwargs)
            finally:
                forget()
                if self._running.get(key) is entry:
                    del self._running[key]
                if last is not cut or handle.is_cancelled:
                    self._kept.ended(task_type, task_id)
                handle.state = last
                handle.cancel_all()
                self._keep(key, last, plugin)
                with anyio.move_on_after(_TOLD_S, shield=True):
                    await _told(on_terminal, last, handle)

        entry.task = plugin.tasks.start(run, name=f"{plugin.key}: {task_type} {task_id}")
        self._kept.began(plugin.key, task_type, task_id, chat_key)

        def ended(_: object) -> None:
            # If the task is cancelled before its first step, its ``finally`` does not run. So
            # remove the entry here.
            if self._running.get(key) is entry:
                forget()
                del self._running[key]
                if handle.is_cancelled:
                    self._kept.ended(task_type, task_id)

        entry.task.add_done_callback(ended)
        return handle

    def running(self) -> list[AsyncTaskHandle]:
        """List the running tasks.

        Returns:
            Their handles, in the order of their start.
        """
        return [each.handle for each in self._running.values()]

    def get_handle(self, task_type: str = "", task_id: str = "") -> AsyncTaskHandle | None:
        """Get the handle of a running task.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            The handle; None if the task does not run.
        """
        key = self._find(task_type, task_id, self._running)
        return self._running[key].handle if key else None

    def get_state(self, task_type: str = "", task_id: str = "") -> TaskCtl | None:
        """Get the newest report of a task, even if the task has recently ended.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            The newest report; None for an unknown task. The final reports of the last 256 ended
            tasks are remembered.
        """
        if key := self._find(task_type, task_id, self._running):
            return self._running[key].handle.state
        key = self._find(task_type, task_id, self._ended)
        return self._ended[key][0] if key else None

    def is_running(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """Check whether a task is running.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            True while the task runs. The result may be awaited.
        """
        return AwaitableBool(self._find(task_type, task_id, self._running) is not None)

    def cancel(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """Cancel a task.

        Args:
            task_type: The task's type; empty to find the task by its id only.
            task_id: The task's id.

        Returns:
            False if the task does not run. The result may be awaited.
        """
        key = self._find(task_type, task_id, self._running)
        if key is None:
            return AwaitableBool(False)
        entry = self._running[key]
        entry.handle.is_cancelled = AwaitableBool(True)
        if entry.task is not None:
            entry.task.cancel()
        return AwaitableBool(True)

    def stop_all(self) -> AwaitableInt:
        """Cancel all tasks.

        Returns:
            How many tasks were cancelled. The result may be awaited.
        """
        return AwaitableInt(sum(self.cancel(*key) for key in [*self._running]))

    def release(self, chats: ChatScope) -> None:
        """Cancel the tasks of some chats, because another process takes the chats over. The tasks'
        rows stay, so the other process tells the chats that the tasks were interrupted.

        Args:
            chats: Returns whether a chat is meant.
        """
        for entry in [*self._running.values()]:
            try:
                chat_key = ChatKey.parse(entry.handle.chat_key)
            except ChatKeyError:
                continue  # The task belongs to no chat.
            if entry.task is not None and chats(chat_key):
                entry.task.cancel()

    def get_running_tasks(self) -> list[AsyncTaskHandle]:
        """Get the handles of all running tasks.

        Returns:
            The handles, in the order in which the tasks were started.
        """
        return [each.handle for each in self._running.values()]

    def _find(self, task_type: str, task_id: str, table: Any) -> _Key | None:
        if task_type and task_id:
            return (task_type, task_id) if (task_type, task_id) in table else None
        wanted = task_id or task_type  # if only one argument is given, it is the id
        return next((key for key in table if key[1] == wanted), None)

    def _keep(self, key: _Key, last: TaskCtl, plugin: TaskOwner) -> None:
        # The report may refer to objects of the plugin's classes, so drop it when the plugin is
        # unloaded.
        if old := self._ended.pop(key, None):
            old[1]()
        forget = plugin.effects.add(f"result of {key[1]}", partial(_drop, self._ended, key))
        self._ended[key] = (last, forget)
        while len(self._ended) > _MAX_ENDED:
            _, (_, forget_oldest) = self._ended.popitem(last=False)
            forget_oldest()


async def _worked(
    kind: TaskType, handle: AsyncTaskHandle, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TaskCtl:
    """Run a task to its end and return its last `TaskCtl`."""
    key = handle.plugin.key
    with handle.plugin.acting():
        try:
            words = kind.work(handle, *args, **kwargs)
            if inspect.iscoroutine(words):
                return _checked(await words)
            async with aclosing(words) as following:
                async for word in following:
                    handle.state = said = _checked(word)
                    if said.is_terminal:
                        return said
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: task {} {!r} failed", key, kind.name, handle.task_id)
            return TaskCtl.fail(f"{type(error).__name__}: {error}", error)
    return TaskCtl.success()


def _checked(word: Any) -> TaskCtl:
    if not isinstance(word, TaskCtl):
        raise TypeError(f"it gives a {type(word).__name__}, expected TaskCtl")
    return word


def _drop(table: dict[_Key, Any], key: _Key) -> None:
    table.pop(key, None)


async def _told(on_terminal: OnTerminal | None, last: TaskCtl, handle: AsyncTaskHandle) -> None:
    if on_terminal is None:
        return
    try:
        with handle.plugin.acting():
            answer = on_terminal(last)
            if inspect.isawaitable(answer):
                await answer
    except BaseException as error:
        if is_cancellation(error):
            raise
        logger.exception("plugin {}: on_terminal of {} failed", handle.plugin.key, handle.task_id)
