"""QQ's official bots, in groups, private chats and guilds. https://bot.q.qq.com/wiki.

A bot may only answer and must name the message that it answers: within five minutes in a group or a
channel, within an hour in private. QQ usually refuses other messages, and the receipt says so.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.qq import Bot
from nonebot.adapters.qq.event import (
    C2CMessageCreateEvent,
    GroupMessageCreateEvent,
    GuildMessageEvent,
    MessageDeleteEvent,
    MessageEvent,
)
from nonebot.drivers import Driver
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import Capabilities, Host, PictureLimits, VoiceLimits
from nekro_core.api.chat import (
    Author,
    ChatKey,
    ChatKind,
    File,
    Image,
    Mention,
    Record,
    Reply,
    Role,
    Sender,
    Text,
    Video,
    Voice,
)

from ..adapter import UnisegAdapter
from ..platform import Platform
from ..values import Address
from .qq_webhook import VerifyingAdapter

_ANSWER_S = {False: 290.0, True: 3500.0}
"""How long a message may be answered, by whether the chat is private. It leaves some seconds for
the transfer."""
_NUMBER = "qq.reply_seq"
"""The field of uniseg's target that counts the answers to its message."""
_FIRST_NUMBER, _NUMBERS_S = 1000, 100
"""QQ treats an answer with a number that it has seen as a repetition. An earlier process may have
used some numbers. After a restart, counting begins at the first of these two values plus the second
for each second of the message's age, which is surely above them."""
_MARKUP = re.compile(r"<(?=[@#]|qqbot-|emoji:)")
_PICTURES = PictureLimits(types=("image/jpeg", "image/png", "image/gif"))
_CHATS = Capabilities(
    inline=frozenset({Text, Image}),
    alone=frozenset({Voice, Video, File}),
    text_length=2000,
    images_per_call=1,
    voice=VoiceLimits(formats=("silk", "wav", "mp3")),
    picture=_PICTURES,
    file_bytes=10 * 1024 * 1024,
)
_CHANNELS = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset(),
    text_length=2000,
    images_per_call=1,
    picture=_PICTURES,
)


class QQ(Platform):
    """See the module."""

    name = "qq"
    title = "QQ, official"
    stock = VerifyingAdapter
    capabilities = _CHATS
    answers = True

    def capabilities_of(self, key: ChatKey) -> Capabilities:
        """Return the limits of the chat. Guilds accept no voices, videos or files; groups and
        private chats accept no mentions and no replies."""
        return _CHANNELS if key.kind is ChatKind.CHANNEL else _CHATS

    def user_of(self, bot: BaseBot) -> str:
        """Return the bot's user id in guilds, else its application's id."""
        assert isinstance(bot, Bot)
        try:
            return bot.self_info.id
        except RuntimeError:  # not yet asked for
            return bot.self_id

    def is_message(self, event: BaseEvent) -> bool:
        """What somebody wrote."""
        return isinstance(event, MessageEvent)

    def place(self, event: BaseEvent, bot: BaseBot) -> Target | None:
        """Return the chat, also for a deleted message."""
        if isinstance(event, MessageDeleteEvent):
            return Target(event.message.channel_id, event.message.guild_id, channel=True)
        return super().place(event, bot)

    def address(self, target: Target) -> Address:
        """Return the chat. The key of a guild's private chat includes the guild, which is needed
        to open the chat again."""
        if target.private and target.channel:
            return Address(ChatKind.PRIVATE, f"{target.parent_id}/{target.id}")
        return super().address(target)

    def target(self, key: ChatKey) -> Target:
        """See `address`."""
        guild, slash, user = key.native_id.partition("/")
        if key.kind is ChatKind.PRIVATE and slash:
            return Target(user, guild, channel=True, private=True)
        return super().target(key)

    def resumed(
        self, key: ChatKey, records: Sequence[Record], now: float
    ) -> tuple[Target, float] | None:
        """Return a target that names the last message that a person wrote."""
        for record in reversed(records):
            if record.author is not Author.PERSON or record.recalled or not record.message_id:
                continue
            target = self.target(key)
            target.source = record.message_id
            if not target.channel:
                age_s = max(now - record.time, 0.0)
                target.extra[_NUMBER] = _FIRST_NUMBER + int(age_s * _NUMBERS_S)
            return target, record.time
        return None

    def refreshed_target(self, target: Target, age_s: float) -> Target:
        """Remove the message's id from the target if it is too old: QQ would refuse the answer."""
        if age_s < _ANSWER_S[target.private and not target.channel]:
            return target
        return Target(target.id, target.parent_id, target.channel, target.private)

    def quoted(self, event: BaseEvent) -> Reply | None:
        """The message that is answered, in a guild."""
        reference = getattr(event, "message_reference", None)
        return Reply(reference.message_id) if reference and reference.message_id else None

    def sender(self, event: BaseEvent) -> Sender:
        """Return the author. In private chats and groups QQ may give no name."""
        match event:
            case GuildMessageEvent():
                member = event.member
                roles = set(member.roles or ()) if member else set()
                role = Role.OWNER if "4" in roles else Role.ADMIN if "2" in roles else Role.MEMBER
                name = (member.nick if member else None) or event.author.username
                return Sender(event.author.id, name or "", role)
            case GroupMessageCreateEvent(author=author):
                role = Role(author.member_role)
                return Sender(author.member_openid, author.username or "", role)
            case C2CMessageCreateEvent(author=author):
                return Sender(author.user_openid, author.username or "")
        return super().sender(event)

    def time(self, event: BaseEvent) -> float | None:
        """The server's."""
        timestamp = getattr(event, "timestamp", None)
        if isinstance(timestamp, str):
            timestamp = datetime.fromisoformat(timestamp)
        return timestamp.timestamp() if isinstance(timestamp, datetime) else None

    def is_addressed_to_us(self, event: BaseEvent, bot: BaseBot) -> bool:
        """Whether the type of the event or a mention's ``is_you`` says that we are addressed."""
        mentions = getattr(event, "mentions", None) or ()
        return event.is_tome() or any(getattr(each, "is_you", False) for each in mentions)

    def recalled(self, event: BaseEvent) -> str:
        """The deleted message's."""
        return event.message.id if isinstance(event, MessageDeleteEvent) else ""

    def text(self, text: str) -> uniseg.Segment:
        """Insert an invisible character into what would be markup, so that a text notifies
        nobody."""
        return uniseg.Text(_MARKUP.sub("<\u200b", text))

    async def download(self, bot: BaseBot, event: BaseEvent, piece: Any) -> str | bytes:
        """Return the address. QQ sends addresses without their scheme."""
        address = piece.url or ""
        return f"https:{address}" if address.startswith("//") else ""


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `RuntimeError` if strangers could send events as anybody, and
    `ValueError` for settings that cannot be read."""
    verified = host.settings.get("qq_verify_webhook", True)
    if str(verified).lower() in ("false", "0", "no", "off"):
        raise RuntimeError(
            "QQ_VERIFY_WEBHOOK is off, so anybody who reaches the port could speak as anybody: "
            "leave it on"
        )
    return UnisegAdapter(host, driver, QQ())
