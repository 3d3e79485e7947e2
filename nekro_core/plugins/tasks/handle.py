"""A task that runs, in the hands of the plugin."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Self

import anyio

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.tasks import AwaitableBool, TaskCtl
from nekro_core.system.errors import NekroError

if TYPE_CHECKING:
    from nekro_core.plugins.authoring.plugin import NekroPlugin
    from nekro_core.plugins.authoring.services import Journal

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
        plugin: "NekroPlugin",
        *,
        task_type: str = "",
        journal: "Journal | None" = None,
    ) -> None:
        self.task_id = task_id
        self.chat_key = chat_key
        self.plugin = plugin
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
