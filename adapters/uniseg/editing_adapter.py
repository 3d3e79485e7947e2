"""Provides the adapter of a platform on which the text of a sent message can be replaced."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from nonebot.adapters import Bot

from nekro_core.api.chat import Delivery, Mention, Receipt, Reply, Segment, Text

from .account_adapter import ManagedUnisegAdapter
from .bridge import CannotSend
from .piece_writer import to_uniseg


class EditingUnisegAdapter(ManagedUnisegAdapter):
    """`ManagedUnisegAdapter` with `SupportsEditing`."""

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Replace a message's text. See `SupportsEditing`."""

        async def call(bot: Bot) -> str:
            await self._edit(message_id, delivery, bot)
            return message_id

        return await self._receipt(delivery.chat_key, call)

    @abstractmethod
    async def _edit(self, message_id: str, delivery: Delivery, bot: Bot) -> None:
        """Call the platform. Raises `CannotSend` if the message has more than text, or if the
        platform refuses the edit."""

    async def _new_text(self, segments: Iterable[Segment], delivery: Delivery, bot: Bot) -> Any:
        """Return the message of the stock adapter with these segments of a delivery. Raises
        `CannotSend` if a segment is not text."""
        said = tuple(segments)
        if any(not isinstance(segment, Text | Mention | Reply) for segment in said):
            raise CannotSend("only the text of a message can be changed")
        pieces = await to_uniseg(said, self._platform, delivery.chat_key, self._intake.users(), bot)
        return await self._intake.bridge.write(pieces, bot)
