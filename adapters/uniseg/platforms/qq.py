"""Connects QQ's official bots, in groups, private chats and guilds (https://bot.q.qq.com/wiki).

A bot may only answer messages, and each answer must name the message that it answers. QQ accepts an
answer for five minutes in a group or channel, and for an hour in a private chat. QQ usually refuses
other messages, and the receipt says so.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.qq import Bot
from nonebot.adapters.qq.config import Config
from nonebot.adapters.qq.event import (
    C2CMessageCreateEvent,
    GroupJoinRequestEvent,
    GroupMessageCreateEvent,
    GuildMessageEvent,
    MessageDeleteEvent,
    MessageEvent,
)
from nonebot.drivers import Driver
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target
from pydantic import Field, SecretStr

from nekro_core.api.adapter import (
    Capabilities,
    ContactRequest,
    ContactRequestKind,
    Host,
    PictureLimits,
    VoiceLimits,
)
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

from ..account_kind import AccountKind, UnisegAccount, ask, refused
from ..adapter import UnisegAdapter
from ..contact_requests import PlatformRequest
from ..platform import Platform
from ..requesting_adapter import RequestingUnisegAdapter
from ..values import Address
from .qq_webhook import VerifyingAdapter

_ANSWER_S = {False: 290.0, True: 3500.0}
"""Seconds for which a message may be answered. The key is True for a private chat. The values are a
little less than QQ allows, because the transfer takes time."""
_NUMBER = "qq.reply_seq"
"""The field of uniseg's target that counts the answers to the target's message."""
_FIRST_NUMBER, _NUMBERS_S = 1000, 100
"""After a restart, the number of the first answer to a message is a sum: the first value, plus the
second value for each second of the message's age. QQ drops an answer whose number was used before.
This number is surely above all numbers that an earlier process used."""
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
    """QQ's groups, private chats and guilds through an official bot."""

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
        """Return the bot's user id in guilds. Until it is known, return the application's id."""
        assert isinstance(bot, Bot)
        try:
            return bot.self_info.id
        except RuntimeError:  # NoneBot's adapter has not requested the id yet
            return bot.self_id

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a message that a person wrote."""
        return isinstance(event, MessageEvent)

    def place(self, event: BaseEvent, bot: BaseBot) -> Target | None:
        """Return the chat of an event. This includes deletions, for which uniseg finds no chat."""
        if isinstance(event, MessageDeleteEvent):
            return Target(event.message.channel_id, event.message.guild_id, channel=True)
        return super().place(event, bot)

    def address(self, target: Target) -> Address:
        """Return the chat. For a guild's private chat, the id is ``guild/user``, because the
        guild's id is needed to open the chat again."""
        if target.private and target.channel:
            return Address(ChatKind.PRIVATE, f"{target.parent_id}/{target.id}")
        return super().address(target)

    def target(self, key: ChatKey) -> Target:
        """Return the target for a chat key: the inverse of `address`."""
        guild, slash, user = key.native_id.partition("/")
        if key.kind is ChatKind.PRIVATE and slash:
            return Target(user, guild, channel=True, private=True)
        return super().target(key)

    def resumed(
        self, key: ChatKey, records: Sequence[Record], now: float
    ) -> tuple[Target, float] | None:
        """Return a target that names the last message of a person in the chat's history."""
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
        """Remove the message's id from the target if the message is too old, because QQ would
        refuse the answer."""
        if age_s < _ANSWER_S[target.private and not target.channel]:
            return target
        return Target(target.id, target.parent_id, target.channel, target.private)

    def quoted(self, event: BaseEvent) -> Reply | None:
        """Return the answered message. Only messages of guilds name the message that they
        answer."""
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
        """Return the time that the server gives the event."""
        timestamp = getattr(event, "timestamp", None)
        if isinstance(timestamp, str):
            timestamp = datetime.fromisoformat(timestamp)
        return timestamp.timestamp() if isinstance(timestamp, datetime) else None

    def is_addressed_to_us(self, event: BaseEvent, bot: BaseBot) -> bool:
        """Return True if the type of the event, or ``is_you`` of a mention, marks the event as
        addressed to the bot."""
        mentions = getattr(event, "mentions", None) or ()
        return event.is_tome() or any(getattr(each, "is_you", False) for each in mentions)

    def request(self, event: BaseEvent, bot: BaseBot) -> PlatformRequest | None:
        """Return the request of a person to join a group. QQ sends it to bots with the intent
        ``group_members`` that are administrators of the group. A request that the group's own rule
        has approved needs no answer."""
        if not isinstance(event, GroupJoinRequestEvent) or event.auto_approved is not None:
            return None
        verified = event.verify_info
        words = [verified.verify_message or ""] if verified else []
        answers = (verified.review_qa_list or []) if verified else []
        words += [f"{each.question} {each.answer}" for each in answers]
        return PlatformRequest(
            kind=ContactRequestKind.GROUP_JOIN,
            user_id=event.member_openid,
            user_name=event.username,
            handle=event.join_request_id,
            group_id=event.group_openid,
            text="\n".join(filter(None, words)),
            time=event.apply_at.timestamp(),
        )

    async def answer_request(
        self, request: ContactRequest, bot: BaseBot, *, approve: bool, reason: str
    ) -> None:
        """See `Platform.answer_request`."""
        assert isinstance(bot, Bot)
        await bot.approval_join_request(
            group_id=request.group_id,
            member_openid=request.user_id,
            op="approve" if approve else "decline",
            join_request_id=request.handle,
            reject_reason=None if approve else reason or None,
        )

    def recalled(self, event: BaseEvent) -> str:
        """Return the id of the deleted message."""
        return event.message.id if isinstance(event, MessageDeleteEvent) else ""

    def text(self, text: str) -> uniseg.Segment:
        """Insert an invisible character where QQ would read markup. Otherwise a text could mention
        people."""
        return uniseg.Text(_MARKUP.sub("<\u200b", text))

    async def download(self, bot: BaseBot, event: BaseEvent, piece: Any) -> str | bytes:
        """Return the medium's address with a scheme, because QQ sends addresses without one."""
        address = piece.url or ""
        return f"https:{address}" if address.startswith("//") else ""


class QQAccount(UnisegAccount):
    """An official QQ bot."""

    id: str = Field(title="App id", description="The bot's AppID, from q.qq.com.", min_length=1)
    secret: SecretStr = Field(
        title="App secret", description="The bot's AppSecret, from q.qq.com.", min_length=1
    )
    groups: bool = Field(
        default=True,
        title="Groups and private chats",
        description="Whether the bot receives messages of groups and private chats. Off for a bot "
        "that is in guilds alone.",
    )
    join_requests: bool = Field(
        default=False,
        title="Requests to join groups",
        description="Whether the bot receives the requests of people to join groups in which it is "
        "an administrator. If QQ has not granted it the events of group members, it cannot "
        "connect.",
    )

    @property
    def key(self) -> str:
        """The app id."""
        return self.id

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`. The bot uses a WebSocket, which needs no public address."""
        secret = self.secret.get_secret_value()
        intent = {"c2c_group_at_messages": self.groups, "group_members": self.join_requests}
        return {"id": self.id, "secret": secret, "intent": intent, "use_websocket": True}


async def _check(account: QQAccount, proxy: str | None) -> str:
    body = {"appId": account.id, "clientSecret": account.secret.get_secret_value()}
    address = str(Config.model_validate({}).qq_auth_base)
    _, answer = await ask("POST", address, body=body, proxy=proxy)
    if not answer.get("access_token"):
        raise refused(f"QQ refuses the app id or secret: {answer.get('message')}")
    return f"QQ accepts the bot {account.id}"


ACCOUNTS = AccountKind(
    model=QQAccount,
    setting="qq_bots",
    check=_check,
    hint="At q.qq.com, allow this machine's address (IP whitelist) and choose the events of the "
    "bot. The bot connects by WebSocket; nothing must reach it from outside.",
)


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `RuntimeError` if the settings switch off the check of webhooks'
    signatures, and `ValueError` if the settings are invalid."""
    verified = host.settings.get("qq_verify_webhook", True)
    if str(verified).lower() in ("false", "0", "no", "off"):
        raise RuntimeError(
            "QQ_VERIFY_WEBHOOK is off, so anybody who reaches the port could send events as any "
            "person: leave it on"
        )
    return RequestingUnisegAdapter(host, driver, QQ(), ACCOUNTS)
