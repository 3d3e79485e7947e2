"""What one platform is like, beyond what uniseg knows of it."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nonebot.adapters import Adapter, Bot, Event, Message
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import Capabilities
from nekro_core.api.chat import ChatKey, ChatKind, Notice, Role, Segments, Sender

from .bridge import Bridge
from .values import Address, identity_of

if TYPE_CHECKING:
    from .reading import Reader


class Platform:
    """The general case; a platform's own module overrides where it differs.

    Nothing here waits, but for `download`. A method may raise anything for an event that it does
    not understand: the event is logged and passed over.
    """

    name: str
    """The adapter's name in chat keys and in ``NEKRO_PLATFORMS``."""
    stock: type[Adapter]
    """NoneBot's adapter."""
    capabilities: Capabilities
    nearest: Mapping[type, type] = {}
    """What a type of segment is sent as, where the platform has nothing of its own for it."""
    inline_bytes: int = 10 * 1024 * 1024
    """Largest medium of a message."""

    @cached_property
    def bridge(self) -> Bridge:
        """The platform's part of uniseg."""
        return Bridge(self.stock.get_name())

    def user_of(self, bot: Bot) -> str:
        """Our account's user id, as it stands in events, where it differs from `Bot.self_id`."""
        return bot.self_id

    def is_message(self, event: Event) -> bool:
        """Whether somebody says something. Else it is asked for a `notice`, or a `recalled` id."""
        return event.get_type() == "message"

    def place(self, event: Event, bot: Bot) -> Target | None:
        """Where an event happened; nothing where it has no place."""
        return self.bridge.target(event, bot)

    def message_id(self, event: Event) -> str:
        """The platform's id of the message that an event brings."""
        return self.bridge.message_id(event)

    async def segments(self, event: Event, bot: Bot, reader: "Reader") -> Segments:
        """What was said."""
        return await reader.read(self.bridge.read(self.message(event)))

    def address(self, target: Target) -> Address:
        """The chat that a target of uniseg's means."""
        if target.private:
            return Address(ChatKind.PRIVATE, target.id)
        return Address(ChatKind.CHANNEL if target.channel else ChatKind.GROUP, target.id)

    def target(self, key: ChatKey) -> Target:
        """The target of a chat that has not been heard since the start."""
        channel = key.kind is ChatKind.CHANNEL
        return Target(key.native_id, channel=channel, private=key.kind is ChatKind.PRIVATE)

    def message(self, event: Event) -> Message[Any]:
        """What was said, with the parts that NoneBot would cut off (who is meant, which message is
        answered)."""
        original = getattr(event, "original_message", None)
        return original if isinstance(original, Message) else event.get_message()

    def sender(self, event: Event) -> Sender:
        """Who did it."""
        return Sender(event.get_user_id(), "", Role.MEMBER)

    def time(self, event: Event) -> float | None:
        """When, in seconds since 1970."""
        return None

    def means_us(self, event: Event, bot: Bot) -> bool:
        """Whether the platform says that we are addressed, beyond mentions and replies."""
        return False

    def notice(self, event: Event) -> Notice | None:
        """What happened, for an event that is no message."""
        return None

    def recalled(self, event: Event) -> str:
        """The id of the message that was taken back."""
        return ""

    async def download(self, bot: Bot, event: Event, piece: Any) -> str | bytes:
        """A medium that came without a public address: its bytes or an address; empty where there
        is no way. Raises what the adapter raises."""
        return ""

    def sent_id(self, result: Any) -> str:
        """The id of a sent message in what the platform answered."""
        return identity_of(result)
