"""An outbox that calls hooks before and after each message is sent."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from nekro_core.chat import ChatKey, DeliveryState, Receipt, Segment, Segments
from nekro_core.delivery.outbound.outbox import Outbox


class SendHook(Protocol):
    """A hook for every message. It is called in the sender's task, before the message joins the
    chat's sending queue. It must not raise, and must limit its own time."""

    async def before(self, chat_key: ChatKey, segments: Segments, run_id: str) -> Segments | None:
        """Return the segments to send. For None, the message is not sent and its receipt says
        ``dropped``."""

    async def after(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        """Receive the receipts of the message's platform calls, also of those that the platform
        refused. Not called for a message that a hook refused."""


class HookedOutbox(Outbox):
    """An `Outbox` with hooks around `send`. Hooks are not called for edits. If a stored message is
    sent again later, its hooks are not called again."""

    _hooks: tuple[SendHook, ...] = ()

    def add_hook(self, hook: SendHook) -> Callable[[], None]:
        """Add a hook. It is called after the hooks that were added earlier.

        Returns a function that removes the hook.
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
        """Send a message as `Outbox.send` does. A message that a hook refuses is ``dropped``."""
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
