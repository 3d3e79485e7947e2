"""Converts messages from and to a platform's format with the library uniseg.

Only the reliable parts of uniseg are used: the builder, the exporter and the target of an event.
The account is chosen, messages are split and fallbacks are decided without uniseg.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from nonebot.adapters import Bot, Event, Message
from nonebot_plugin_alconna.uniseg import FallbackStrategy, Segment, SerializeFailed, Target
from nonebot_plugin_alconna.uniseg.adapters import alter_get_builder, alter_get_exporter
from nonebot_plugin_alconna.uniseg.builder import MessageBuilder
from nonebot_plugin_alconna.uniseg.exporter import MessageExporter


class CannotSend(ValueError):
    """The platform cannot carry the message. The text is a reason that a person can read."""


class Bridge:
    """Uniseg's builder and exporter for one platform. ``name`` is the name of NoneBot's adapter.
    Raises `RuntimeError` if uniseg does not support this adapter."""

    def __init__(self, name: str) -> None:
        builder: MessageBuilder[Any] | None = alter_get_builder(name)
        exporter: MessageExporter[Any] | None = alter_get_exporter(name)
        if builder is None or exporter is None:
            raise RuntimeError(f"nonebot-plugin-alconna does not support the adapter {name}")
        self.name = name
        self._builder = builder
        self._exporter = exporter

    def target(self, event: Event, bot: Bot) -> Target | None:
        """Return where an event happened; None if uniseg does not know it."""
        try:
            return self._exporter.get_target(event, bot)
        except (NotImplementedError, ValueError, AttributeError, AssertionError):
            return None

    def message_id(self, event: Event) -> str:
        """Return the platform's id of an event's message."""
        return str(self._exporter.get_message_id(event))

    def read(self, message: Message[Any]) -> list[Segment]:
        """Return the pieces of a message, without changing the message."""
        return list(self._builder.generate(deepcopy(message)))

    async def write(self, segments: list[Segment], bot: Bot) -> Message[Any]:
        """Convert the pieces of one call to the platform's format. If the format cannot hold a
        piece, this method raises `CannotSend`. It does not leave the piece out or write the piece
        as text."""
        try:
            message: Message[Any] = await self._exporter.export(
                segments, bot, FallbackStrategy.forbid
            )
        except SerializeFailed as error:
            raise CannotSend(f"{self.name} cannot carry it: {error}") from error
        return message

    async def send(
        self, target: Target, bot: Bot, message: Message[Any], options: Mapping[str, Any]
    ) -> Any:
        """Send a message with the account of ``bot``. Errors of NoneBot's adapter are raised."""
        return await self._exporter.send_to(target, bot, message, **options)
