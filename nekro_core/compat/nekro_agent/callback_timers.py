"""`CallbackTimer`: a timer of a plugin that calls a function. It is only in memory, so a restart
loses it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTimer:
    """A timer that is not due yet, as plugins for nekro-agent see it. If the timer only calls a
    function, ``chat_key`` may be any text. ``trigger_time`` is in whole seconds since 1970,
    ``created`` in seconds since 1970."""

    task_id: str
    chat_key: str
    trigger_time: int
    event_desc: str
    temporary: bool = False
    created: float = 0.0

    @property
    def timer_id(self) -> str:
        """The same as ``task_id``."""
        return self.task_id


@dataclass(slots=True, eq=False)
class CallbackTimer:
    """A timer and the task that waits for its time. The task belongs to the plugin that set the
    timer, so it ends when the plugin is unloaded."""

    shown: LegacyTimer
    task: asyncio.Task[Any] | None = None
    forget: Callable[[], None] = lambda: None
    """Removes the plugin's undo step for this timer."""

    def stop(self) -> None:
        """End the task. The function is not called."""
        self.forget()
        if self.task is not None:
            self.task.cancel()
