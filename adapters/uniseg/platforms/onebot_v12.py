"""Connects the platforms of a OneBot v12 implementation (https://12.onebot.dev).

The id of a person is ``platform:user``, because one connection may serve several platforms.
"""

import base64
from typing import Any

from loguru import logger
from nonebot.adapters import Bot as BaseBot
from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.onebot.v12 import Adapter
from nonebot.adapters.onebot.v12.event import (
    ChannelMemberDecreaseEvent,
    ChannelMemberIncreaseEvent,
    ChannelMessageDeleteEvent,
    Event,
    GroupMemberDecreaseEvent,
    GroupMemberIncreaseEvent,
    GroupMessageDeleteEvent,
    MessageEvent,
    PrivateMessageDeleteEvent,
)
from nonebot.drivers import Driver
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import Capabilities, Host, PictureLimits
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    File,
    Image,
    Mention,
    Notice,
    Reply,
    Sender,
    Text,
    Video,
    Voice,
)
from nekro_core.api.secrets import ComparedSecret, kept_secret, secret_file

from ..adapter import UnisegAdapter
from ..platform import Platform
from ..values import Address, native_user_id, qualified_user_id

KEPT_AS = "onebot_v12_access_token"
"""The name under which a token is stored. The stored token is used if the settings have none."""
_JOINS = (GroupMemberIncreaseEvent, ChannelMemberIncreaseEvent)
_LEAVES = (GroupMemberDecreaseEvent, ChannelMemberDecreaseEvent)
_DELETES = (GroupMessageDeleteEvent, ChannelMessageDeleteEvent, PrivateMessageDeleteEvent)


class OneBotV12(Platform):
    """The platforms that an implementation of OneBot v12 connects."""

    name = "onebot_v12"
    title = "OneBot v12"
    stock = Adapter
    capabilities = Capabilities(
        inline=frozenset({Text, Mention, Reply, Image}),
        alone=frozenset({Voice, Video, File}),
        picture=PictureLimits(),
        file_bytes=10 * 1024 * 1024,
    )

    def person(self, user_id: str, bot: BaseBot) -> str:
        """Return ``platform:user``."""
        return qualified_user_id(user_id, bot)

    def user(self, person: str, bot: BaseBot) -> str:
        """Return the user id without the platform."""
        return native_user_id(person, bot)

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a message that a person wrote."""
        return isinstance(event, MessageEvent)

    def address(self, target: Target) -> Address:
        """Return the chat. The id of a channel is ``guild/channel``."""
        if target.channel and target.parent_id:
            return Address(ChatKind.CHANNEL, f"{target.parent_id}/{target.id}")
        return super().address(target)

    def target(self, key: ChatKey) -> Target:
        """Return the target for a chat key: the inverse of `address`."""
        guild, slash, channel = key.native_id.partition("/")
        if key.kind is ChatKind.CHANNEL and slash:
            return Target(channel, guild, channel=True)
        return super().target(key)

    def sender(self, event: BaseEvent) -> Sender:
        """Return the author. The standard has no names in messages; some implementations add a
        field with the name."""
        extra = event.model_extra or {}
        name = extra.get("qq.card") or extra.get("qq.nickname") or extra.get("user_displayname")
        return Sender(event.get_user_id(), str(name or ""))

    def time(self, event: BaseEvent) -> float | None:
        """Return the time that the OneBot implementation gives the event."""
        return event.time.timestamp() if isinstance(event, Event) else None

    def notice(self, event: BaseEvent) -> Notice | None:
        """Return the notice for a person who joined or left."""
        if not isinstance(event, _JOINS + _LEAVES):
            return None
        kind = "join" if isinstance(event, _JOINS) else "leave"
        return Notice(kind, event.operator_id or event.user_id, event.user_id)

    def recalled(self, event: BaseEvent) -> str:
        """Return the id of the deleted message."""
        return event.message_id if isinstance(event, _DELETES) else ""

    async def download(self, bot: BaseBot, event: BaseEvent, piece: Any) -> str | bytes:
        """Download a medium through the OneBot implementation. Messages contain no addresses of
        media."""
        answer = await bot.call_api("get_file", type="data", file_id=piece.id)
        data = answer["data"]
        return base64.b64decode(data) if isinstance(data, str) else bytes(data)


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    adapter = UnisegAdapter(host, driver, OneBotV12())
    config = adapter.stock.onebot_config
    if not config.onebot_access_token:
        # Without a token, anybody who reaches the port could send events as any account.
        config.onebot_access_token = kept_secret(host.data_dir, KEPT_AS)
        path = secret_file(host.data_dir, KEPT_AS)
        logger.info("OneBot v12: connect to /onebot/v12/ws with the access token in {}", path)
    config.onebot_access_token = ComparedSecret(config.onebot_access_token)
    return adapter
