"""Whoever has a say in what is sent."""

from collections.abc import Sequence
from typing import Protocol

from nekro_core.chat import ChatKey, Receipt, Segments


class SendHook(Protocol):
    """Asked about every message, in the caller's task and before it has a place in its chat. Does
    not raise; bounds its own time."""

    async def before(self, chat_key: ChatKey, segments: Segments, run_id: str) -> Segments | None:
        """What is sent instead, or None: nothing is, and the sender is told that it was dropped."""

    async def after(
        self, chat_key: ChatKey, segments: Segments, receipts: Sequence[Receipt]
    ) -> None:
        """It was sent, or not: what the platform answered to each piece."""
