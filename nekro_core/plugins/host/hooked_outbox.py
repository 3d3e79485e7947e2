"""An outbox that asks plugins about every message before it is sent, and tells them after."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from nekro_core.chat import ChatKey, DeliveryState, Receipt, Segment, Segments
from nekro_core.delivery.outbound.outbox import Outbox


class SendHook(Protocol):
    """Is called for every message, in the sender's task and before the message has a place in its
    chat. It does not raise, and bounds its own time."""

    async def before(self, chat_key: ChatKey, segments: Segments, run_id: str) -> Segments | None:
        """Return the segments to send. With None nothing is sent, and the sender is told that the
        message was dropped."""

    async def after(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        """Take note of the receipts of the message's platform calls, also if it was not sent."""


class HookedOutbox(Outbox):
    """An `Outbox` with hooks around `send`. Edits, and messages that are sent late, pass no hook: a
    late one has passed already."""

    _hooks: tuple[SendHook, ...] = ()

    def add_hook(self, hook: SendHook) -> Callable[[], None]:
        """Ask a hook about every message from now on, after the hooks that were added before.

        Returns what removes it.
        """
        self._hooks = (*self._hooks, hook)

        def remove() -> None:
            self._hooks = tuple(each for each in self._hooks if each is not hook)

        return remove

    async def send(
        self,
        chat_key: ChatKey,
        segments: Iterable[Segment],
        *,
        run_id: str = "",
        record: bool = True,
    ) -> tuple[Receipt, ...]:
        """As `Outbox.send`. A message that a hook refuses is ``dropped``."""
        hooks, wanted = self._hooks, tuple(segments)
        for hook in hooks:
            changed = await hook.before(chat_key, wanted, run_id)
            if changed is None:
                reason = "a plugin decided that it is not sent"
                return (Receipt(state=DeliveryState.DROPPED, reason=reason),)
            wanted = changed
        receipts = await super().send(chat_key, wanted, run_id=run_id, record=record)
        for hook in hooks:
            await hook.after(chat_key, wanted, receipts)
        return receipts
