"""What comes from Telegram."""

from typing import Any, cast

from nonebot.adapters import Bot, Event
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    Forward,
    ForwardedMessage,
    Notice,
    Segments,
    Sender,
)

from ...platform import Platform
from ...reading import Reader
from ...values import Address
from .calls import Json
from .polling import PollingAdapter
from .reading import (
    happened,
    message_of,
    notice_of,
    origin_of,
    pieces_of,
    quoted_in,
    sender_of,
    thread_of,
    unnamed_in,
)
from .writing import CAPABILITIES

DOWNLOAD_BYTES = 20 * 1024 * 1024
"""Largest file that the Bot API hands out; a server of one's own may hand out more."""


class Telegram(Platform):
    """Reads the update itself: NoneBot's event is for NoneBot's plugins."""

    name = "telegram"
    title = "Telegram"
    stock = PollingAdapter
    capabilities = CAPABILITIES
    ids_of_chat = True

    def is_message(self, event: Event) -> bool:
        """Not an edit: what was said first was heard."""
        return message_of(_update(event)) is not None

    def place(self, event: Event, bot: Bot) -> Target | None:
        """The chat, and in a forum the topic."""
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
        """A forum's topics are chats of their own."""
        found = super().address(target)
        thread = target.extra.get("message_thread_id")
        return Address(found.kind, found.native_id, None if thread is None else str(thread))

    def target(self, key: ChatKey) -> Target:
        """As the key says."""
        extra = {} if key.thread is None else {"message_thread_id": int(key.thread)}
        private, channel = key.kind is ChatKind.PRIVATE, key.kind is ChatKind.CHANNEL
        return Target(key.native_id, private=private, channel=channel, extra=extra)

    def message_id(self, event: Event) -> str:
        """The platform's, which counts in each chat anew."""
        return str(_message(event)["message_id"])

    def sender(self, event: Event) -> Sender:
        """See `sender_of`."""
        return sender_of(_message(event))

    def time(self, event: Event) -> float | None:
        """The platform's, in whole seconds."""
        message = happened(_update(event))
        return float(message["date"]) if message and message.get("date") else None

    def notice(self, event: Event) -> Notice | None:
        """Who came and who left."""
        return notice_of(_update(event))

    async def segments(self, event: Event, bot: Bot, reader: Reader) -> Segments:
        """The message that is answered, the medium, the words; a forward as a bundle of one."""
        message = _message(event)
        username = cast(PollingAdapter, bot.adapter).named.get(bot.self_id, "")
        said = await reader.read(pieces_of(message, bot.self_id, username))
        said = said or (unnamed_in(message),)
        if (origin := origin_of(message)) is not None:
            said = (Forward((ForwardedMessage(origin.sender_id, origin.name, said, origin.time),)),)
        reply = quoted_in(message)
        return said if reply is None else (await reader.quoted(reply), *said)

    async def download(self, bot: Bot, event: Event, piece: Any) -> str | bytes:
        """The file itself: its address would have the bot's token in it."""
        api = cast(PollingAdapter, bot.adapter).apis[bot.self_id]
        return await api.fetch(piece.id, DOWNLOAD_BYTES)


def _update(event: Event) -> Json:
    return cast(Json, getattr(event, "update", {}))


def _message(event: Event) -> Json:
    message = message_of(_update(event))
    assert message is not None
    return message
