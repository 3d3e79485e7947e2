"""Describes one platform, beyond what uniseg knows of it."""

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
    """The general case; a platform's own module overrides where it differs.

    Nothing here waits, but for `segments` and `download`. A method may raise anything for an event
    that it does not understand: the event is logged and passed over.
    """

    name: str
    """The adapter's name in chat keys and in ``NEKRO_PLATFORMS``."""
    title: str
    """As people call it."""
    stock: type[Adapter]
    """NoneBot's adapter."""
    capabilities: Capabilities
    nearest: Mapping[type, type] = {}
    """What a type of medium is sent as, where the platform has nothing of its own for it."""
    ids_of_chat: bool = False
    """Whether message ids are unique in their chat only. They are kept as ``id@chat`` then."""
    inline_bytes: int = 10 * 1024 * 1024
    """Largest medium of a message."""

    @cached_property
    def bridge(self) -> Bridge:
        """The platform's part of uniseg."""
        return Bridge(self.stock.get_name())

    # -- accounts

    def user_of(self, bot: Bot) -> str:
        """Our account's user id, as it stands in events, where it differs from `Bot.self_id`."""
        return bot.self_id

    def names_of(self, bot: Bot) -> tuple[str, ...]:
        """All that our account is called in events, its user id first."""
        return (self.user_of(bot),)

    def person(self, user_id: str, bot: Bot) -> str:
        """Who a user is to the rest of the bot. Of an adapter that stands in front of several
        platforms, the platform belongs to it: the same id is somebody else on each."""
        return user_id

    def user(self, person: str, bot: Bot) -> str:
        """The user id of a `person` on the account's platform."""
        return person

    # -- what comes in

    def is_message(self, event: Event) -> bool:
        """Whether somebody says something. Else it is asked for a `notice`, or a `recalled` id."""
        return event.get_type() == "message"

    def edited_text(self, event: Event, bot: Bot) -> list[uniseg.Segment] | None:
        """The words, without media, that a message has now, where its writer changed it; nothing
        for any other event."""
        return None

    def place(self, event: Event, bot: Bot) -> Target | None:
        """Where an event happened, and so where an answer goes; nothing where it has no place."""
        return self.bridge.target(event, bot)

    def address(self, target: Target) -> Address:
        """The chat that a `place` is."""
        if target.private:
            return Address(ChatKind.PRIVATE, target.id)
        return Address(ChatKind.CHANNEL if target.channel else ChatKind.GROUP, target.id)

    def message_id(self, event: Event) -> str:
        """The platform's id of the message that an event brings."""
        return self.bridge.message_id(event)

    async def segments(self, event: Event, bot: Bot, reader: "PieceReader") -> Segments:
        """What was said."""
        segments = await reader.read(self.bridge.read(self.message(event)))
        reply = self.quoted(event)
        return segments if reply is None else (await reader.quoted(reply), *segments)

    def message(self, event: Event) -> Message[Any]:
        """What was said, with the parts that NoneBot would cut off (who is meant, which message is
        answered)."""
        original = getattr(event, "original_message", None)
        return original if isinstance(original, Message) else event.get_message()

    def quoted(self, event: Event) -> Reply | None:
        """The message that is answered, where the event and not the message names it."""
        return None

    def sender(self, event: Event) -> Sender:
        """Who did it, under the name that the chat shows."""
        return Sender(event.get_user_id(), "", Role.MEMBER)

    def time(self, event: Event) -> float | None:
        """When, in seconds since 1970."""
        return None

    def is_addressed_to_us(self, event: Event, bot: Bot) -> bool:
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

    # -- what goes out

    def capabilities_of(self, key: ChatKey) -> Capabilities:
        """What one call to this chat can carry."""
        return self.capabilities

    def target(self, key: ChatKey) -> Target:
        """The target of a chat without an event since the start."""
        channel = key.kind is ChatKind.CHANNEL
        return Target(key.native_id, channel=channel, private=key.kind is ChatKind.PRIVATE)

    answers: bool = False
    """Whether what is said must name the message that it answers: `resumed` is asked then."""

    def resumed(
        self, key: ChatKey, records: Sequence[Record], now: float
    ) -> tuple[Target, float] | None:
        """The target of a chat that was last heard before the start, from what is kept of it, the
        oldest first, and when that was; nothing where it is no help."""
        return None

    def refreshed_target(self, target: Target, age_s: float) -> Target:
        """The target as it serves now, where the chat was heard so long ago."""
        return target

    def text(self, text: str) -> uniseg.Segment:
        """A text whose characters the platform takes for nothing but characters."""
        return uniseg.Text(text)

    def mention(self, user_id: str, name: str) -> uniseg.Segment:
        """Somebody is addressed."""
        return uniseg.At("user", user_id, name or None)

    def bundle_author(self, message: ForwardedMessage, ours: str) -> str:
        """Whose message of a bundle it is there, as a `person`; ``ours`` is our account's user
        id."""
        return message.sender_id or ours

    def arrange_pieces(self, pieces: list[uniseg.Segment]) -> list[uniseg.Segment]:
        """The pieces of one call as the platform wants them together."""
        return pieces

    def options(self, segments: Segments) -> Mapping[str, Any]:
        """What the adapter's send is told beside the message."""
        return {}

    def refused(self, error: Exception) -> bool:
        """Whether the platform clearly said no, where its adapter's error does not show it."""
        return False

    def sent_id(self, result: Any) -> str:
        """The id of a sent message in what the platform answered."""
        return sent_message_id(result)
