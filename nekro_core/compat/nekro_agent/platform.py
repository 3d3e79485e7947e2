"""Adapters and accounts with the names of nekro-agent, and the classes of requests to its
adapters."""

from enum import StrEnum
from typing import Any

import nonebot
from pydantic import BaseModel, ConfigDict, Field

from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.compat.nekro_agent.legacy_segments import ChatType
from nekro_core.tools.outcome import ToolFailure


class PlatformUser(BaseModel):
    """A person on a platform."""

    platform_name: str = ""
    user_id: str = ""
    user_name: str = ""
    user_avatar: str = ""


class LegacyAdapter:
    """An adapter with the attributes and methods of nekro-agent. ``inner`` is the running adapter,
    or None."""

    def __init__(self, key: str, inner: Any) -> None:
        self.key = key
        self.inner = inner

    @property
    def name(self) -> str:
        """The same as ``key``."""
        return self.key

    @property
    def supports_webui(self) -> bool:
        """Whether the adapter has web pages. Always False."""
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
        """A person, with the name in the database."""
        name = await current_host().store.users.name(self.key, str(user_id))
        return PlatformUser(platform_name=self.key, user_id=str(user_id), user_name=name)

    def __repr__(self) -> str:
        return f"<adapter {self.key}>"


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


def get_bot(self_id: str | None = None) -> Any:
    """NoneBot's ``Bot`` of an account, by default of the first connected account. Raises
    `ToolFailure` if the account is not connected."""
    return bot_of(self_id or "")


def bot_of(account: str) -> Any:
    """The same as `get_bot`, but an empty text means the first connected account."""
    try:
        bots = nonebot.get_bots()
    except ValueError:
        bots = {}
    bot = bots.get(account) if account else next(iter(bots.values()), None)
    if bot is None:
        raise ToolFailure(
            f"no OneBot account {account or 'at all'} is connected: start its client, see "
            '"Connect QQ through NapCat" in README.md'
        )
    return bot


class PlatformSendSegmentType(StrEnum):
    """The kinds of segments in a request."""

    TEXT = "text"
    AT = "at"
    IMAGE = "image"
    FILE = "file"


class PlatformAtSegment(BaseModel):
    """A mentioned person."""

    platform_user_id: str
    nickname: str | None = None


class PlatformSendSegment(BaseModel):
    """One segment of a request."""

    model_config = ConfigDict(use_enum_values=True)

    type: PlatformSendSegmentType
    content: str = ""
    at_info: PlatformAtSegment | None = None
    file_path: str | None = None


class PlatformSendRequest(BaseModel):
    """A request to send segments to a chat."""

    chat_key: str
    segments: list[PlatformSendSegment] = Field(default_factory=list)
    ref_msg_id: str | None = None


class PlatformSendResponse(BaseModel):
    """The outcome of a `PlatformSendRequest`."""

    success: bool
    error_message: str | None = None
    message_id: str | None = None


class PlatformChannel(BaseModel):
    """A chat of a platform."""

    channel_id: str
    channel_name: str = ""
    channel_type: ChatType = ChatType.UNKNOWN
    channel_avatar: str = ""
