"""Adapters and accounts under the names of nekro-agent, and the values that its adapters send."""

from enum import StrEnum
from typing import Any

import nonebot
from pydantic import BaseModel, ConfigDict, Field

from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.compat.nekro_agent.legacy_segments import ChatType
from nekro_core.tools.outcome import ToolFailure


class PlatformUser(BaseModel):
    """Somebody on a platform."""

    platform_name: str = ""
    user_id: str = ""
    user_name: str = ""
    user_avatar: str = ""


class LegacyAdapter:
    """An adapter as plugins ask for it. ``inner`` is the one that runs, None where none does."""

    def __init__(self, key: str, inner: Any) -> None:
        self.key = key
        self.inner = inner

    @property
    def name(self) -> str:
        """The same as ``key``."""
        return self.key

    @property
    def supports_webui(self) -> bool:
        """Whether it has pages of its own."""
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
        """Somebody, by what is known of them here."""
        name = await current_host().store.users.name(self.key, str(user_id))
        return PlatformUser(platform_name=self.key, user_id=str(user_id), user_name=name)

    def __repr__(self) -> str:
        return f"<adapter {self.key}>"


class AdapterUtils:
    """The functions that plugins find adapters with."""

    def get_adapter(self, adapter_key: str) -> LegacyAdapter:
        """An adapter by its key. Raises `ToolFailure` where none of that name runs."""
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
        """Those that run."""
        return {key: LegacyAdapter(key, each) for key, each in current_host().adapters.items()}


adapter_utils = AdapterUtils()


def get_bot(self_id: str | None = None) -> Any:
    """NoneBot's ``Bot`` of an account, or of the first one. Raises `ToolFailure` where none is
    connected."""
    return bot_of(self_id or "")


def bot_of(account: str) -> Any:
    """The same; an empty account is the first OneBot one."""
    try:
        bots = nonebot.get_bots()
    except ValueError:
        bots = {}
    found = bots.get(account) if account else next(iter(bots.values()), None)
    if found is None:
        raise ToolFailure(
            f"no OneBot account {account or 'at all'} is connected: start its client, see "
            '"Connect QQ through NapCat" in README.md'
        )
    return found


class PlatformSendSegmentType(StrEnum):
    """The kinds of pieces."""

    TEXT = "text"
    AT = "at"
    IMAGE = "image"
    FILE = "file"


class PlatformAtSegment(BaseModel):
    """Who is mentioned."""

    platform_user_id: str
    nickname: str | None = None


class PlatformSendSegment(BaseModel):
    """One piece."""

    model_config = ConfigDict(use_enum_values=True)

    type: PlatformSendSegmentType
    content: str = ""
    at_info: PlatformAtSegment | None = None
    file_path: str | None = None


class PlatformSendRequest(BaseModel):
    """Pieces for one chat."""

    chat_key: str
    segments: list[PlatformSendSegment] = Field(default_factory=list)
    ref_msg_id: str | None = None


class PlatformSendResponse(BaseModel):
    """What became of it."""

    success: bool
    error_message: str | None = None
    message_id: str | None = None


class PlatformChannel(BaseModel):
    """One chat of a platform."""

    channel_id: str
    channel_name: str = ""
    channel_type: ChatType = ChatType.UNKNOWN
    channel_avatar: str = ""
