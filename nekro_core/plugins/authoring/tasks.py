"""What a task of a plugin says of itself, and the yes or no that it is asked for."""

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import Any, Self

import msgspec


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
