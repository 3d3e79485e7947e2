"""Describes those properties of a platform that the library uniseg does not provide."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nonebot.adapters import Adapter, Bot, Event, Message
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import Capabilities, ContactRequest
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
from .contact_requests import PlatformRequest
from .values import Address, sent_message_id

if TYPE_CHECKING:
    from .piece_reader import PieceReader


class Platform:
    """The default behaviour of a platform. A platform's module has a subclass, which overrides the
    methods and attributes that are different on this platform.

    Only `segments` and `download` may make network calls. If a method raises an error for an event,
    the event is logged and skipped.
    """

    name: str
    """The adapter's name in chat keys and in ``NEKRO_PLATFORMS``."""
    title: str
    """The platform's name as people write it."""
    stock: type[Adapter]
    """The class of NoneBot's adapter."""
    capabilities: Capabilities
    nearest: Mapping[type, type] = {}
    """The medium types that the platform lacks, each with the type that is sent instead."""
    ids_of_chat: bool = False
    """If true, two chats can have messages with the same id, and ids are stored as
    ``id@chat``."""
    inline_bytes: int = 10 * 1024 * 1024
    """Maximum number of bytes of a medium that is sent."""

    @cached_property
    def bridge(self) -> Bridge:
        """Uniseg's converter for this platform."""
        return Bridge(self.stock.get_name())

    # -- accounts

    def user_of(self, bot: Bot) -> str:
        """Return the account's user id in events, which may differ from `Bot.self_id`."""
        return bot.self_id

    def names_of(self, bot: Bot) -> tuple[str, ...]:
        """Return all ids of the account in events, the user id first."""
        return (self.user_of(bot),)

    def person(self, user_id: str, bot: Bot) -> str:
        """Return the id that the rest of the bot uses for a user. If NoneBot's adapter serves
        several platforms, the id includes the platform, because two platforms may have the same
        user id."""
        return user_id

    def user(self, person: str, bot: Bot) -> str:
        """Return the user id on the account's platform: the inverse of `person`."""
        return person

    # -- receiving

    def is_message(self, event: Event) -> bool:
        """Return True if the event is a message. For other events, `recalled` and `notice` are
        called."""
        return event.get_type() == "message"

    def edited_text(self, event: Event, bot: Bot) -> list[uniseg.Segment] | None:
        """Return the new text, without media, if the event edits a message; None for other
        events."""
        return None

    def place(self, event: Event, bot: Bot) -> Target | None:
        """Return where an event happened; answers are sent there. None if it belongs to no
        chat."""
        return self.bridge.target(event, bot)

    def address(self, target: Target) -> Address:
        """Return the address of the chat that `place` returned."""
        if target.private:
            return Address(ChatKind.PRIVATE, target.id)
        return Address(ChatKind.CHANNEL if target.channel else ChatKind.GROUP, target.id)

    def message_id(self, event: Event) -> str:
        """Return the platform's id of an event's message."""
        return self.bridge.message_id(event)

    async def segments(self, event: Event, bot: Bot, reader: "PieceReader") -> Segments:
        """Convert the message of an event into segments."""
        segments = await reader.read(self.bridge.read(self.message(event)))
        reply = self.quoted(event)
        return segments if reply is None else (await reader.quoted(reply), *segments)

    def message(self, event: Event) -> Message[Any]:
        """Return the message of an event. It includes the mention of the bot and the reply, which
        NoneBot cuts off."""
        original = getattr(event, "original_message", None)
        return original if isinstance(original, Message) else event.get_message()

    def quoted(self, event: Event) -> Reply | None:
        """Return the message that this message answers, if the event names it and the message's
        content does not. Otherwise return None."""
        return None

    def sender(self, event: Event) -> Sender:
        """Return the person who acted, with the name that the chat shows."""
        return Sender(event.get_user_id(), "", Role.MEMBER)

    def time(self, event: Event) -> float | None:
        """Return the time of the event in seconds since 1970; None if it has none."""
        return None

    def is_addressed_to_us(self, event: Event, bot: Bot) -> bool:
        """Return True if the platform marks the event as addressed to the bot. Mentions and replies
        in the message are checked elsewhere."""
        return False

    def notice(self, event: Event) -> Notice | None:
        """Return the notice for an event that is not a message; None if the event is ignored."""
        return None

    def recalled(self, event: Event) -> str:
        """Return the id of the message that the event recalls; empty for other events."""
        return ""

    def request(self, event: Event, bot: Bot) -> PlatformRequest | None:
        """Return the request of a person, such as to join a group; None for other events. The
        adapter of a platform that has requests is a `RequestingUnisegAdapter`."""
        return None

    async def answer_request(
        self, request: ContactRequest, bot: Bot, *, approve: bool, reason: str
    ) -> None:
        """Approve or refuse a request. Errors of NoneBot's adapter are raised."""
        raise NotImplementedError

    async def download(self, bot: Bot, event: Event, piece: Any) -> str | bytes:
        """Return the bytes or the address of a medium that has no public address. Empty if the
        platform offers neither. Errors of NoneBot's adapter are raised."""
        return ""

    # -- sending

    def capabilities_of(self, key: ChatKey) -> Capabilities:
        """Return what one call to this chat can carry."""
        return self.capabilities

    def target(self, key: ChatKey) -> Target:
        """Return the target of a chat that had no event since the start."""
        channel = key.kind is ChatKind.CHANNEL
        return Target(key.native_id, channel=channel, private=key.kind is ChatKind.PRIVATE)

    answers: bool = False
    """If true, each sent message must name a message that it answers, and `resumed` is called
    after a restart."""

    def resumed(
        self, key: ChatKey, records: Sequence[Record], now: float
    ) -> tuple[Target, float] | None:
        """Return the target of a chat whose last event arrived before the start, and the time of
        that event. ``records`` is the chat's history, oldest first. Return None if the history
        contains no target."""
        return None

    def refreshed_target(self, target: Target, age_s: float) -> Target:
        """Return the target to use at this moment. ``target`` comes from an event that is ``age_s``
        old."""
        return target

    def text(self, text: str) -> uniseg.Segment:
        """Convert a text. If the platform would read a character as markup, the character is
        escaped."""
        return uniseg.Text(text)

    def markdown(self, text: str) -> uniseg.Segment:
        """Convert a Markdown text. Called only if `Capabilities.markdown` is true."""
        return self.text(text)

    def mention(self, user_id: str, name: str) -> uniseg.Segment:
        """Convert a mention."""
        return uniseg.At("user", user_id, name or None)

    def bundle_author(self, message: ForwardedMessage, ours: str) -> str:
        """Return the id of the author of a message in a bundle, in the form that `person` returns.
        ``ours`` is the user id of the bot's account."""
        return message.sender_id or ours

    def arrange_pieces(self, pieces: list[uniseg.Segment]) -> list[uniseg.Segment]:
        """Arrange the pieces of one call as the platform needs them."""
        return pieces

    def options(self, segments: Segments) -> Mapping[str, Any]:
        """Return further arguments for the adapter's send function."""
        return {}

    def refused(self, error: Exception) -> bool:
        """Return True if the error means that the platform refused the message, although the type
        of the error does not show it."""
        return False

    def sent_id(self, result: Any) -> str:
        """Return the id of a sent message from the platform's answer."""
        return sent_message_id(result)
