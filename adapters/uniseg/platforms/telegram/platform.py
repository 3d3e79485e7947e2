"""Describes Telegram as a `Platform`."""

from typing import Any, cast

from nonebot.adapters import Bot, Event
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import ContactRequest
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    Forward,
    ForwardedMessage,
    Notice,
    Segments,
    Sender,
)

from ...contact_requests import PlatformRequest
from ...piece_reader import PieceReader
from ...platform import Platform
from ...values import Address
from .calls import Json
from .polling import PollingAdapter
from .reading import (
    changed_in,
    happened,
    message_in,
    notice_of,
    origin_of,
    pieces_of,
    quoted_in,
    request_in,
    sender_of,
    thread_of,
    unnamed_in,
    words_of,
)
from .writing import CAPABILITIES

REMEMBERED = 4096
"""Maximum number of people whose names are remembered for mentions."""
DOWNLOAD_BYTES = 20 * 1024 * 1024
"""Maximum number of bytes of a file that Telegram's server lets bots download. A server that the
operator runs may allow more."""


class Telegram(Platform):
    """Reads Telegram's raw updates. Only NoneBot's plugins read the parsed events of NoneBot."""

    name = "telegram"
    title = "Telegram"
    stock = PollingAdapter
    capabilities = CAPABILITIES
    ids_of_chat = True

    def is_message(self, event: Event) -> bool:
        """Return True if the event is a message."""
        return message_in(_update(event)) is not None

    def edited_text(self, event: Event, bot: Bot) -> list[uniseg.Segment] | None:
        """Return the new text or caption of an edited message."""
        message = changed_in(_update(event))
        return None if message is None else words_of(message, bot.self_id, _username(bot))

    def place(self, event: Event, bot: Bot) -> Target | None:
        """Return the chat of an event; in a forum, also the topic."""
        message = happened(_update(event))
        if message is None:
            return None
        chat, thread = message["chat"], thread_of(message)
        kind = chat["type"]
        extra = {} if thread is None else {"message_thread_id": int(thread)}
        return Target(
            str(chat["id"]), private=kind == "private", channel=kind == "channel", extra=extra
        )

    def address(self, target: Target) -> Address:
        """Return the chat. Each topic of a forum is a separate chat."""
        address = super().address(target)
        thread = target.extra.get("message_thread_id")
        return Address(address.kind, address.native_id, None if thread is None else str(thread))

    def target(self, key: ChatKey) -> Target:
        """Return the target for a chat key: the inverse of `address`."""
        extra = {} if key.thread is None else {"message_thread_id": int(key.thread)}
        private, channel = key.kind is ChatKind.PRIVATE, key.kind is ChatKind.CHANNEL
        return Target(key.native_id, private=private, channel=channel, extra=extra)

    def message_id(self, event: Event) -> str:
        """Return the platform's message id, which each chat counts separately."""
        return str(_message(event)["message_id"])

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """Maps the ids of people who wrote recently to their names."""

    def sender(self, event: Event) -> Sender:
        """Return the author, and remember the author's name for mentions."""
        sender = sender_of(_message(event))
        self.names.pop(sender.user_id, None)
        self.names[sender.user_id] = sender.name
        if len(self.names) > REMEMBERED:
            del self.names[next(iter(self.names))]
        return sender

    def time(self, event: Event) -> float | None:
        """Return the time that Telegram gives the event, in whole seconds."""
        message = happened(_update(event))
        return float(message["date"]) if message and message.get("date") else None

    def notice(self, event: Event) -> Notice | None:
        """Return the notice for a person who joined or left."""
        return notice_of(_update(event))

    def request(self, event: Event, bot: Bot) -> PlatformRequest | None:
        """Return the request of a person to join a group or channel."""
        return request_in(_update(event))

    async def answer_request(
        self, request: ContactRequest, bot: Bot, *, approve: bool, reason: str
    ) -> None:
        """Approve or refuse a request. Telegram shows no reason."""
        method = "approveChatJoinRequest" if approve else "declineChatJoinRequest"
        params = {"chat_id": int(request.group_id), "user_id": int(request.user_id)}
        await cast(PollingAdapter, bot.adapter).apis[bot.self_id].call(method, params)

    async def segments(self, event: Event, bot: Bot, reader: PieceReader) -> Segments:
        """Convert the message: first the reply, then the medium, then the text. A forwarded message
        becomes a bundle of one message."""
        message = _message(event)
        segments = await reader.read(pieces_of(message, bot.self_id, _username(bot)))
        segments = segments or (unnamed_in(message),)
        if (origin := origin_of(message)) is not None:
            segments = (
                Forward((ForwardedMessage(origin.sender_id, origin.name, segments, origin.time),)),
            )
        reply = quoted_in(message)
        return segments if reply is None else (await reader.quoted(reply), *segments)

    async def download(self, bot: Bot, event: Event, piece: Any) -> str | bytes:
        """Return the file's bytes. Its address is not returned, because it contains the bot's
        token."""
        api = cast(PollingAdapter, bot.adapter).apis[bot.self_id]
        return await api.fetch(piece.id, DOWNLOAD_BYTES)


def _update(event: Event) -> Json:
    return cast(Json, getattr(event, "update", {}))


def _message(event: Event) -> Json:
    message = happened(_update(event))
    assert message is not None
    return message


def _username(bot: Bot) -> str:
    return cast(PollingAdapter, bot.adapter).named.get(bot.self_id, "")
