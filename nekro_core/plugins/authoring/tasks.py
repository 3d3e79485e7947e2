"""A plugin's task: its kind, what it says of itself, and its handle."""

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
    """Where a task stands."""

    PROGRESS = "progress"
    SUCCESS = "success"
    FAIL = "fail"
    CANCEL = "cancel"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing comes after it."""
        return self is not TaskSignal.PROGRESS


class TaskCtl(msgspec.Struct, frozen=True, kw_only=True):
    """One word of a task: it yields them, and the last one says how it ended.

    Attributes:
        signal: Where the task stands.
        message: What people may read.
        percent: 0 to 100.
        data: What came of it.
        error: What it failed with.
    """

    signal: TaskSignal
    message: str = ""
    percent: float = 0.0
    data: Any = None
    error: BaseException | str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether the task is over with it."""
        return self.signal.is_terminal

    @classmethod
    def report_progress(cls, message: str, percent: float = 0) -> Self:
        """It goes on.

        Args:
            message: What it does now.
            percent: 0 to 100.

        Returns:
            A word that ends nothing.
        """
        return cls(signal=TaskSignal.PROGRESS, message=message, percent=percent)

    @classmethod
    def success(cls, message: str = "", data: Any = None) -> Self:
        """It is done.

        Args:
            message: What was done.
            data: What came of it.

        Returns:
            A last word, with 100 percent.
        """
        return cls(signal=TaskSignal.SUCCESS, message=message, percent=100, data=data)

    @classmethod
    def fail(cls, message: str = "", error: BaseException | str | None = None) -> Self:
        """It cannot be done.

        Args:
            message: Why it cannot be done.
            error: What was raised, or its text.

        Returns:
            A last word.
        """
        return cls(signal=TaskSignal.FAIL, message=message, error=error)

    @classmethod
    def cancel(cls, message: str = "") -> Self:
        """It was called off.

        Args:
            message: Why it was called off.

        Returns:
            A last word.
        """
        return cls(signal=TaskSignal.CANCEL, message=message)


Work = Callable[..., Any]
"""``async def f(handle, ...)`` that yields `TaskCtl`, or returns one."""


class TaskType(msgspec.Struct, frozen=True):
    """A kind of task, as `NekroPlugin.mount_async_task` declares it."""

    name: str
    work: Work


class AwaitableBool(int):
    """True or false. Plugins write ``task.cancel(id)`` and ``await task.cancel(id)``,
    ``handle.is_cancelled`` and ``handle.is_cancelled()``: each gives the answer, where a plain
    bool would be an error or a method always true."""

    def __call__(self) -> bool:
        """The same as a bool."""
        return bool(self)

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


_MAX_KEPT = 64
"""Words of `AsyncTaskHandle.notify` that nobody waits for yet."""


class WaitCancelled(NekroError):
    """Nothing will come of what was waited for: `AsyncTaskHandle.cancel_wait` was called."""


class _Slot:
    """One thing that is waited for."""

    def __init__(self) -> None:
        self.decided = anyio.Event()
        self.data: Any = None
        self.cancelled = False


class AsyncTaskHandle:
    """Given to the task as its first argument, and by `task.start` to whoever started it.

    It can be awaited, which gives itself at once: plugins write ``await task.start(...)`` too.

    Args:
        task_id: Tells tasks of one type apart.
        chat_key: The text form of the chat's key.
        plugin: The plugin's object.
        task_type: The name under which it was mounted.
        journal: Where lines for the agent go; None for a handle that was made by hand.
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
        """The plugin's object, a `NekroPlugin`."""
        self.task_type = task_type
        self.state: TaskCtl | None = None
        """Its newest word."""
        self.is_cancelled = AwaitableBool(False)
        """Whether it was called off."""
        self._journal = journal
        self._slots: dict[str, _Slot] = {}

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    async def wait(self, key: str, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as plugins write it
        """Wait for what `notify` gives under a key.

        Args:
            key: The key.
            timeout: Seconds to wait; None for any time.

        Returns:
            What `notify` was given.

        Raises:
            TimeoutError: Nothing came in time.
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
        """Hand something to whoever waits for it, or will.

        Args:
            key: The key.
            data: What `wait` gives.

        Returns:
            False where 64 keys are kept or waited for already.
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
        """Let nobody wait for this key any longer.

        Args:
            key: The key.

        Returns:
            False where nobody did and nothing was kept.
        """
        slot = self._slots.pop(key, None)
        if slot is None:
            return False
        slot.cancelled = True
        slot.decided.set()
        return True

    def cancel_all(self) -> None:
        """Let nobody wait for anything any longer."""
        for key in [*self._slots]:
            self.cancel_wait(key)

    async def notify_agent(self, message: str, trigger: bool = True) -> None:
        """Add a line to the record of the task's chat.

        Args:
            message: The line.
            trigger: Whether the agent answers it.

        Raises:
            RuntimeError: The handle was made by hand and belongs to no bot.
        """
        if self._journal is None:
            raise RuntimeError("this handle was made by hand: it belongs to no bot")
        await self._journal.note(ChatKey.parse(self.chat_key), message, trigger=trigger)


class NoteWriter(Protocol):
    """Where a task's lines for the agent go (`nekro_core.plugins.authoring.services.Journal`)."""

    async def note(self, chat_key: ChatKey, text: str, *, trigger: bool = False) -> None:
        """Add a system line; with ``trigger`` the agent of the chat answers it."""


class TaskOwner(Protocol):
    """What tasks need of the plugin that starts them (`NekroPlugin`)."""

    @property
    def key(self) -> str:
        """The plugin's key."""

    @property
    def declared(self) -> Sequence[object]:
        """What the plugin has declared; its `TaskType` values are among it."""

    @property
    def effects(self) -> UndoStack:
        """Where the undoing of a task is written down."""

    @property
    def tasks(self) -> OwnedTasks:
        """Where the task runs."""

    def acting(self) -> AbstractContextManager[None]:
        """Enter this around the plugin's code."""


OnTerminal = Callable[[TaskCtl], Any]
"""Is told a task's last word; may be async."""


class TaskService(Protocol):
    """The tasks of all plugins of a bot (`nekro_core.plugins.tasks.runner.TaskRunner`). A task is
    known by its type and id; an id alone finds the first of it."""

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
        """Begin a task that the plugin has mounted. Raises `TaskRefused`."""

    def get_handle(self, task_type: str = "", task_id: str = "") -> AsyncTaskHandle | None:
        """The handle of a task that runs."""

    def get_state(self, task_type: str = "", task_id: str = "") -> TaskCtl | None:
        """The newest word of a task; None where nothing is known."""

    def is_running(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """Whether it runs."""

    def cancel(self, task_type: str = "", task_id: str = "") -> AwaitableBool:
        """Call a task off. False where it does not run."""

    def stop_all(self) -> int:
        """Call off all tasks; how many those were."""

    def get_running_tasks(self) -> list[AsyncTaskHandle]:
        """The handles of all that run."""
