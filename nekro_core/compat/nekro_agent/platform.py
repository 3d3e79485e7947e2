"""Offers adapters and accounts under the names of nekro-agent."""

from collections.abc import Iterator
from typing import Any

import nonebot

from nekro_core.chat import ChatKey, ChatKeyError, Mention, Reply, Segment, Text
from nekro_core.chat import File as FileSegment
from nekro_core.chat import Image as ImageSegment
from nekro_core.chat.mentions import text_segments
from nekro_core.chat.segments import EVERYONE
from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.compat.nekro_agent.legacy_segments import ChatType
from nekro_core.compat.nekro_agent.platform_values import (
    PlatformChannel,
    PlatformSendRequest,
    PlatformSendResponse,
    PlatformSendSegment,
    PlatformUser,
)
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.outcome import ToolFailure


class LegacyAdapter:
    """An adapter with the attributes and methods of nekro-agent. ``inner`` is the adapter of
    nekro-core; None if it does not run."""

    def __init__(self, key: str, inner: Any) -> None:
        self.key = key
        self.inner = inner

    @property
    def name(self) -> str:
        """The same as ``key``."""
        return self.key

    @property
    def supports_webui(self) -> bool:
        """Always False: no adapter has web pages."""
        return False

    async def get_self_info(self) -> PlatformUser:
        """The bot's account on this platform."""
        host = current_host()
        accounts = list(host.store.accounts.instances(self.key))
        return PlatformUser(
            platform_name=self.key,
            user_id=accounts[0] if accounts else "",
            user_name=host.agent.names[0],
        )

    async def get_user_info(self, user_id: str, *_: Any, **__: Any) -> PlatformUser:
        """A person, with the name that the database has for the person; empty if it has none. The
        database has names for each account of the bot. The accounts of this adapter are looked
        through in turn until one has a name for the person."""
        users, name = current_host().store.users, ""
        for instance in self._instances():
            name = name or await users.name(instance, str(user_id))
        return PlatformUser(platform_name=self.key, user_id=str(user_id), user_name=name)

    async def get_channel_info(self, channel_id: str, *_: Any, **__: Any) -> PlatformChannel:
        """A chat, with the name that the database has for it. ``channel_id`` is ``group_30003`` or
        a whole chat key. Raises `ChatKeyError` for another text."""
        keys = [*self._chats(channel_id)]
        names = current_host().store.chats.name
        name = next(filter(None, map(names, keys)), keys[0].native_id)
        return PlatformChannel(
            channel_id=f"{keys[0].kind.value}_{keys[0].native_id}",
            channel_name=name,
            channel_type=ChatType(keys[0].kind.value),
        )

    async def forward_message(self, request: PlatformSendRequest) -> PlatformSendResponse:
        """Send a message to the chat that the request names. If that fails, the response has the
        error."""
        try:
            ctx = await AgentCtx.create_by_chat_key(request.chat_key)
            reply = [Reply(request.ref_msg_id)] if request.ref_msg_id else []
            parts: list[Segment] = [*reply]
            for segment in request.segments:
                parts += await _segments(ctx, segment)
            receipts = await ctx.send(parts)
        except (ToolFailure, ChatKeyError) as error:
            return PlatformSendResponse(success=False, error_message=str(error))
        sent = receipts[-1].message_id if receipts else None
        return PlatformSendResponse(success=True, message_id=sent)

    def _instances(self) -> list[str]:
        """The instances of the adapter's accounts. If it has no accounts, its name is the only
        instance."""
        return [*current_host().store.accounts.instances(self.key).values()] or [self.key]

    def _chats(self, channel_id: str) -> Iterator[ChatKey]:
        if "-" in channel_id:
            yield ChatKey.parse(channel_id)
            return
        for instance in self._instances():
            yield ChatKey.parse(f"{instance}-{channel_id}")

    def __repr__(self) -> str:
        return f"<adapter {self.key}>"


async def _segments(ctx: AgentCtx, segment: PlatformSendSegment) -> tuple[Segment, ...]:
    file = segment.file_path or segment.content
    match segment.type:
        case "at":
            person = segment.at_info
            if person is None:
                raise ToolFailure("a segment of the type at: expected at_info with the person")
            if person.platform_user_id == EVERYONE:
                return (Text("@all"),)
            return (Mention(person.platform_user_id, person.nickname or ""),)
        case "image":
            return (ImageSegment(await ctx.medium(file, expect="image")),)
        case "file":
            return (FileSegment(await ctx.medium(file)),)
    return text_segments(segment.content)


class AdapterUtils:
    """Finds adapters for plugins."""

    def get_adapter(self, adapter_key: str) -> LegacyAdapter:
        """The running adapter with this key. Raises `ToolFailure` if there is none."""
        adapters = current_host().adapters
        if adapter_key not in adapters:
            raise ToolFailure(
                f"there is no adapter {adapter_key!r}; there are {', '.join(adapters) or 'none'}"
            )
        return LegacyAdapter(adapter_key, adapters[adapter_key])

    async def get_adapter_for_chat(self, chat_key: str) -> LegacyAdapter:
        """The adapter of a chat."""
        instance = chat_key.partition("-")[0]
        return self.get_adapter(current_host().reach.adapter_of(instance))

    @property
    def loaded_adapters(self) -> dict[str, LegacyAdapter]:
        """The running adapters by key."""
        return {key: LegacyAdapter(key, each) for key, each in current_host().adapters.items()}


adapter_utils = AdapterUtils()


class BotNotConnected(ToolFailure, ValueError):
    """No OneBot account is connected, or the wanted account is not connected. It is a `ValueError`,
    because NoneBot raises a `ValueError` in these cases."""


def get_bot(self_id: str | None = None) -> Any:
    """NoneBot's ``Bot`` of an account, by default of the first connected account. Raises
    `BotNotConnected`."""
    return bot_of(self_id or "")


def bot_of(account: str) -> Any:
    """NoneBot's ``Bot`` of an account; an empty text means the first connected account. Raises
    `BotNotConnected`."""
    try:
        bots = nonebot.get_bots()
    except ValueError:
        bots = {}
    bot = bots.get(account) if account else next(iter(bots.values()), None)
    if bot is None:
        raise BotNotConnected(
            f"no OneBot account {account or 'at all'} is connected: start its client, see "
            '"Connect QQ through NapCat" in README.md'
        )
    return bot
