"""Converts messages from and to a platform's form, by uniseg.

Only the parts that keep their promise are used: the builder, the exporter and the address of an
event. Choosing an account, splitting, falling back to text and sending are ours.
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
    """The platform has no form for it. The text is the reason, for a person to read."""


class Bridge:
    """Raises `RuntimeError` for an adapter that uniseg does not know. ``name`` is NoneBot's."""

    def __init__(self, name: str) -> None:
        builder: MessageBuilder[Any] | None = alter_get_builder(name)
        exporter: MessageExporter[Any] | None = alter_get_exporter(name)
        if builder is None or exporter is None:
            raise RuntimeError(f"nonebot-plugin-alconna has nothing for the adapter {name}")
        self.name = name
        self._builder = builder
        self._exporter = exporter

    def target(self, event: Event, bot: Bot) -> Target | None:
        """Where an event happened; nothing where it has no place."""
        try:
            return self._exporter.get_target(event, bot)
        except (NotImplementedError, ValueError, AttributeError, AssertionError):
            return None

    def message_id(self, event: Event) -> str:
        """The platform's id of the message that an event brings."""
        return str(self._exporter.get_message_id(event))

    def read(self, message: Message[Any]) -> list[Segment]:
        """The pieces of a message. The message itself is left as it is."""
        return list(self._builder.generate(deepcopy(message)))

    async def write(self, segments: list[Segment], bot: Bot) -> Message[Any]:
        """The platform's form of pieces that one call can carry. Raises `CannotSend` rather than
        leave a piece out or write it as text."""
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
        """Make the platform's calls, by this account. Raises what the adapter raises."""
        return await self._exporter.send_to(target, bot, message, **options)
