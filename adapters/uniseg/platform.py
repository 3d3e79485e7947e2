"""Describes what uniseg does not know of a platform."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nonebot.adapters import Adapter, Bot, Event, Message
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import Capabilities
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    ForwardedMessage,
    Notice,
    Record,
    Reply,
    Role,
    Segments,
    Sender,
)

from .bridge import Bridge
from .values import Address, sent_message_id

if TYPE_CHECKING:
    from .piece_reader import PieceReader


class Platform:
    """The default behaviour. A platform's own module overrides what differs.

    Only `segments` and `download` wait. A method may raise anything for an event that it does not
    understand: the event is logged and skipped.
    """

    name: str
    """The adapter's name in chat keys and in ``NEKRO_PLATFORMS``."""
    title: str
    """The platform's name for people."""
    stock: type[Adapter]
    """NoneBot's adapter."""
    capabilities: Capabilities
    nearest: Mapping[type, type] = {}
    """Maps a type of medium that the platform lacks to the type as which it is sent."""
    ids_of_chat: bool = False
    """Whether message ids are unique only within their chat. Then they are stored as
    ``id@chat``."""
    inline_bytes: int = 10 * 1024 * 1024
    """Largest medium of a message."""

    @cached_property
    def bridge(self) -> Bridge:
        """The platform's part of uniseg."""
        return Bridge(self.stock.get_name())

    # -- accounts

    def user_of(self, bot: Bot) -> str:
        """Return our account's user id in events, which may differ from `Bot.self_id`."""
        return bot.self_id

    def names_of(self, bot: Bot) -> tuple[str, ...]:
        """Return all ids of our account in events, its user id first."""
        return (self.user_of(bot),)

    def person(self, user_id: str, bot: Bot) -> str:
        """Return the id that the rest of the bot uses for a user. For an adapter of several
        platforms it includes the platform, because each may have the same user id."""
        return user_id

    def user(self, person: str, bot: Bot) -> str:
        """Return the user id of a `person` on the account's platform."""
        return person

    # -- what comes in

    def is_message(self, event: Event) -> bool:
        """Whether the event is a message. For other events, `recalled` and `notice` are called."""
        return event.get_type() == "message"

    def edited_text(self, event: Event, bot: Bot) -> list[uniseg.Segment] | None:
        """Return the new text, without media, if the event is an edit of a message; None for any
        other event."""
        return None

    def place(self, event: Event, bot: Bot) -> Target | None:
        """Return where an event happened, which is where an answer is sent; None if nowhere."""
        return self.bridge.target(event, bot)

    def address(self, target: Target) -> Address:
        """Return the chat of a `place`."""
        if target.private:
            return Address(ChatKind.PRIVATE, target.id)
        return Address(ChatKind.CHANNEL if target.channel else ChatKind.GROUP, target.id)

    def message_id(self, event: Event) -> str:
        """Return the platform's id of an event's message."""
        return self.bridge.message_id(event)

    async def segments(self, event: Event, bot: Bot, reader: "PieceReader") -> Segments:
        """Read the message of an event."""
        segments = await reader.read(self.bridge.read(self.message(event)))
        reply = self.quoted(event)
        return segments if reply is None else (await reader.quoted(reply), *segments)

    def message(self, event: Event) -> Message[Any]:
        """Return the message with the parts that NoneBot cuts off: the mention of the bot and the
        reply."""
        original = getattr(event, "original_message", None)
        return original if isinstance(original, Message) else event.get_message()

    def quoted(self, event: Event) -> Reply | None:
        """Return the message that is answered, if the event names it and the message does not."""
        return None

    def sender(self, event: Event) -> Sender:
        """Return who acted, with the name that the chat shows."""
        return Sender(event.get_user_id(), "", Role.MEMBER)

    def time(self, event: Event) -> float | None:
        """Return the time of the event in seconds since 1970; None if it has none."""
        return None

    def is_addressed_to_us(self, event: Event, bot: Bot) -> bool:
        """Whether the platform says that we are addressed, beyond mentions and replies."""
        return False

    def notice(self, event: Event) -> Notice | None:
        """Return the notice for an event that is no message; None if there is none."""
        return None

    def recalled(self, event: Event) -> str:
        """Return the id of the message that was recalled; empty for any other event."""
        return ""

    async def download(self, bot: Bot, event: Event, piece: Any) -> str | bytes:
        """Return the bytes or an address of a medium without a public address; empty if there is
        no way. Raises what the adapter raises."""
        return ""

    # -- what goes out

    def capabilities_of(self, key: ChatKey) -> Capabilities:
        """Return what one call to this chat can carry."""
        return self.capabilities

    def target(self, key: ChatKey) -> Target:
        """Return the target of a chat without an event since the start."""
        channel = key.kind is ChatKind.CHANNEL
        return Target(key.native_id, channel=channel, private=key.kind is ChatKind.PRIVATE)

    answers: bool = False
    """Whether each sent message must name the message that it answers. Then `resumed` is called."""

    def resumed(
        self, key: ChatKey, records: Sequence[Record], now: float
    ) -> tuple[Target, float] | None:
        """Return the target of a chat whose last event came before the start, and that event's
        time. ``records`` is the chat's history, oldest first. None if it does not help."""
        return None

    def refreshed_target(self, target: Target, age_s: float) -> Target:
        """Return the target to use now. ``age_s`` is the age of the event that it is from."""
        return target

    def text(self, text: str) -> uniseg.Segment:
        """Write a text so that the platform does not read any of it as markup."""
        return uniseg.Text(text)

    def mention(self, user_id: str, name: str) -> uniseg.Segment:
        """Write a mention."""
        return uniseg.At("user", user_id, name or None)

    def bundle_author(self, message: ForwardedMessage, ours: str) -> str:
        """Return the author of a message in a bundle, as a `person`. ``ours`` is our account's
        user id."""
        return message.sender_id or ours

    def arrange_pieces(self, pieces: list[uniseg.Segment]) -> list[uniseg.Segment]:
        """Arrange the pieces of one call as the platform needs them."""
        return pieces

    def options(self, segments: Segments) -> Mapping[str, Any]:
        """Return further arguments for the adapter's send function."""
        return {}

    def refused(self, error: Exception) -> bool:
        """Whether the platform clearly refused, if the type of the adapter's error does not show
        it."""
        return False

    def sent_id(self, result: Any) -> str:
        """Return the id of a sent message from the platform's answer."""
        return sent_message_id(result)
