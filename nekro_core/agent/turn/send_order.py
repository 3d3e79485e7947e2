"""Calls run at one time, and still people read their messages in the order of the calls."""

from collections.abc import Sequence

import anyio

from nekro_core.chat import ChatKey, Receipt, Segment
from nekro_core.plugins.authoring.services import MessageSender

MAX_WAIT_S = 3.0
"""How long a message waits for what an earlier call may send: a picture is made ready in less, and
"one moment, please" must not wait for the search that it announces."""


class SendOrder:
    """The ways out of several calls. A call's first message waits until every earlier call has
    sent something or is over, at most ``patience_s``."""

    def __init__(
        self, outgoing: MessageSender, calls: int, *, patience_s: float = MAX_WAIT_S
    ) -> None:
        self._outgoing = outgoing
        self._patience_s = patience_s
        self._passed = [anyio.Event() for _ in range(calls)]

    def of(self, position: int) -> MessageSender:
        """The way out of one call."""
        return _Ordered(self, position)

    def over(self, position: int) -> None:
        """That call sends nothing more."""
        self._passed[position].set()

    async def send(
        self, position: int, chat_key: ChatKey, segments: Sequence[Segment], run_id: str
    ) -> tuple[Receipt, ...]:
        """Send in turn."""
        if not self._passed[position].is_set():
            with anyio.move_on_after(self._patience_s):
                for earlier in self._passed[:position]:
                    await earlier.wait()
        try:
            return await self._outgoing.send(chat_key, segments, run_id=run_id)
        finally:
            self._passed[position].set()


class _Ordered:
    def __init__(self, order: SendOrder, position: int) -> None:
        self._order = order
        self._position = position

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """See `MessageSender.send`."""
        return await self._order.send(self._position, chat_key, segments, run_id)
