"""A plugin's background task: its type, its reports and its handle."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol, Self

import anyio
import msgspec

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.effects import OwnedTasks, UndoStack
from nekro_core.system.errors import NekroError


class TaskSignal(StrEnum):
    """The state of a task."""

    PROGRESS = "progress"
    SUCCESS = "success"
    FAIL = "fail"
    CANCEL = "cancel"

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended."""
        return self is not TaskSignal.PROGRESS


class TaskCtl(msgspec.Struct, frozen=True, kw_only=True):
    """One report of a task. A task yields reports, and the last one says how the task ended.

    Attributes:
        signal: The state of the task.
        message: A text for people.
        percent: 0 to 100.
        data: The result.
        error: The error of a failed task.
    """

    signal: TaskSignal
    message: str = ""
    percent: float = 0.0
    data: Any = None
    error: BaseException | str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended."""
        return self.signal.is_terminal

    @classmethod
    def report_progress(cls, message: str, percent: float = 0) -> Self:
        """Report that the task continues.

        Args:
            message: What the task does now.
            percent: 0 to 100.

        Returns:
            A report that does not end the task.
        """
        return cls(signal=TaskSignal.PROGRESS, message=message, percent=percent)

    @classmethod
    def success(cls, message: str = "", data: Any = None) -> Self:
        """Report that the task is done.

        Args:
            message: What was done.
            data: The result.

        Returns:
            A final report, with 100 percent.
        """
        return cls(signal=TaskSignal.SUCCESS, message=message, percent=100, data=data)

    @classmethod
    def fail(cls, message: str = "", error: BaseException | str | None = None) -> Self:
        """Report that the task failed.

        Args:
            message: Why it failed.
            error: The exception, or its text.

        Returns:
            A final report.
        """
        return cls(signal=TaskSignal.FAIL, message=message, error=error)

    @classmethod
    def cancel(cls, message: str = "") -> Self:
        """Report that the task was cancelled.

        Args:
            message: Why it was cancelled.

        Returns:
            A final report.
        """
        return cls(signal=TaskSignal.CANCEL, message=message)


Work = Callable[..., Any]
"""``async def f(handle, ...)`` that yields `TaskCtl` or returns a `TaskCtl`."""


class TaskType(msgspec.Struct, frozen=True):
    """A type of task, as `NekroPlugin.mount_async_task` declares it."""

    name: str
    work: Work


class AwaitableBool(int):
    """A bool that can also be awaited and called. Some plugins write ``task.cancel(id)``, others
    ``await task.cancel(id)``; some write ``handle.is_cancelled``, others ``handle.is_cancelled()``.
    With this class, all forms work. A plain bool cannot be awaited or called. If ``is_cancelled``
    were a method, it would count as true wherever a plugin does not call it."""

    def __call__(self) -> bool:
        """Get the value as a bool."""
        return bool(self)

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


class AwaitableInt(int):
    """A number that can be awaited. Some plugins write ``task.stop_all()``, others ``await
    task.stop_all()``."""

    def __await__(self) -> Generator[Any, None, int]:
        yield from ()
        return int(self)


_MAX_KEPT = 64
"""Maximum number of keys of one handle that have a waiting task or an unread value.
`AsyncTaskHandle.notify` refuses further keys."""


class WaitCancelled(NekroError):
    """`AsyncTaskHandle.cancel_wait` ended a wait before a value was set."""


class _Slot:
    """The value of one key, and an event that is set when the value is set."""

    def __init__(self) -> None:
        self.decided = anyio.Event()
        self.data: Any = None
        self.cancelled = False


class AsyncTaskHandle:
    """The handle of a task. The task gets it as its first argument, and `task.start`
    (`nekro_core.plugins.tasks.functions`) returns it.

    Awaiting it returns the handle at once, since some plugins write ``await task.start(...)``.

    Args:
        task_id: Distinguishes tasks of the same type.
        chat_key: The text form of the chat's key.
        plugin: The plugin object.
        task_type: The name under which the task's function was mounted.
        journal: Adds lines to the chat's history; None for a handle that `task.start` did not make.
    """

    def __init__(
        self,
        task_id: str,
        chat_key: str,
        plugin: "TaskOwner",
        *,
        task_type: str = "",
        journal: "NoteWriter | None" = None,
    ) -> None:
        self.task_id = task_id
        self.chat_key = chat_key
        self.plugin: Any = plugin
        """The plugin object, a `NekroPlugin`."""
        self.task_type = task_type
        self.state: TaskCtl | None = None
        """The task's newest report."""
        self.is_cancelled = AwaitableBool(False)
        """Whether the task was cancelled."""
        self._journal = journal
        self._slots: dict[str, _Slot] = {}

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    async def wait(self, key: str, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - existing plugins pass it
        """Wait for the value that `notify` sets for a key.

        Args:
            key: The key.
            timeout: Seconds to wait; None waits for ever.

        Returns:
            The value that was passed to `notify`.

        Raises:
            TimeoutError: No value was set in time.
            WaitCancelled: `cancel_wait` was called for the key.
        """
        slot = self._slots.setdefault(key, _Slot())
        try:
            with anyio.fail_after(timeout):
                await slot.decided.wait()
        finally:
            if self._slots.get(key) is slot:
                del self._slots[key]
        if slot.cancelled:
            raise WaitCancelled(f"{self.task_id} no longer waits for {key!r}")
        return slot.data

    def notify(self, key: str, data: Any = None) -> bool:
        """Set the value of a key. The current or next `wait` for the key returns it.

        Args:
            key: The key.
            data: The value that `wait` returns.

        Returns:
            False if the handle already has 64 other keys; the value is dropped.
        """
        slot = self._slots.get(key)
        if slot is None:
            if len(self._slots) >= _MAX_KEPT:
                return False
            slot = self._slots[key] = _Slot()
        slot.data = data
        slot.decided.set()
        return True

    def cancel_wait(self, key: str) -> bool:
        """Make the wait for a key raise `WaitCancelled`, or drop a value that was not read.

        Args:
            key: The key.

        Returns:
            False if the key had neither a wait nor a value.
        """
        slot = self._slots.pop(key, None)
        if slot is None:
            return False
        slot.cancelled = True
        slot.decided.set()
        return True

    def cancel_all(self) -> None:
        """Call `cancel_wait` for all keys."""
        for key in [*self._slots]:
            self.cancel_wait(key)

    async def notify_agent(self, message: str, trigger: bool = True) -> None:
        """Add a line to the history of the task's chat.

        Args:
            message: The text of the line.
            trigger: Whether the agent answers the line.

        Raises:
            RuntimeError: `task.start` did not make this handle, so it belongs to no bot.
        """
        if self._journal is None:
            raise RuntimeError("task.start did not make this handle, so it belongs to no bot")
        await self._journal.note(ChatKey.parse(self.chat_key), message, trigger=trigger)


class NoteWriter(Protocol):
    """Adds a task's lines to a chat's history (`nekro_core.plugins.authoring.services.Journal`)."""

    async def note(self, chat_key: ChatKey, text: str, *, trigger: bool = False) -> None:
        """Add a system line; with ``trigger`` the agent of the chat answers it."""


class TaskOwner(Protocol):
    """The part of `NekroPlugin` that its tasks use."""

    @property
    def key(self) -> str:
        """The plugin's key."""

    @property
    def declared(self) -> Sequence[object]:
        """The values that the plugin declared, its `TaskType` values among them."""

    @property
    def effects(self) -> UndoStack:
        """The undo steps of the plugin. Each task adds a step."""

    @property
    def tasks(self) -> OwnedTasks:
        """The running tasks of the plugin."""

    def acting(self) -> AbstractContextManager[None]:
        """Return a context to enter around the plugin's code."""


OnTerminal = Callable[[TaskCtl], Any]
"""A function that is called with a task's final report; may be async."""


class TaskService(Protocol):
    """The tasks of all plugins of a bot (`nekro_core.plugins.tasks.runner.TaskRunner`). A task is
    identified by its type and its id. If only the id is given, the first task with this id is
    meant."""

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
        """Start a task of a type that the plugin has mounted. Raises `TaskRefused`."""

    def get_handle(self, task_type: str = "", task_id: str = "") -> AsyncTaskHandle | None:
        """Get the handle of a running task; None if it does not run."""

    def get_state(self, task_type: str = "", task_id: str = "") -> TaskCtl | None:
        """Get the newest report of a task; None for an unknown task."""

    def is_running(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """Return True if a task is running."""

    def cancel(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """Cancel a task. Returns False if it does not run."""

    def stop_all(self) -> AwaitableInt:
        """Cancel all tasks. Returns how many were running."""

    def get_running_tasks(self) -> list[AsyncTaskHandle]:
        """Get the handles of all running tasks."""
