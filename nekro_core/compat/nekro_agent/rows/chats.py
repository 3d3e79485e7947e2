"""``DBChatChannel``: a row for each chat."""

import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from nekro_core.chat import ChatKey
from nekro_core.compat.nekro_agent.core import CoreConfig, config
from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.compat.nekro_agent.legacy_segments import ChatType
from nekro_core.compat.nekro_agent.rows.conditions import (
    ColumnCondition,
    second_column,
    text_column,
)
from nekro_core.compat.nekro_agent.rows.errors import NotKept
from nekro_core.compat.nekro_agent.rows.numbers import row_number
from nekro_core.compat.nekro_agent.rows.presets import DBPreset, DefaultPreset
from nekro_core.compat.nekro_agent.rows.query import Row
from nekro_core.compat.nekro_agent.rows.source import RowSource, TableSource

_IN_FILE = (
    "is_active",
    "observe_mode",
    "preset_id",
    "channel_name",
    "data",
    "conversation_start_time",
)
"""Fields that have no column in the database. They are stored in `NekroAgentHost.extra_chats`."""
_COLUMNS: Mapping[str, ColumnCondition] = {
    "chat_key": text_column("chat_key"),
    "create_time": second_column("first_seen"),
}


class ChannelStatus(StrEnum):
    """Whether the bot answers in a chat."""

    ACTIVE = "active"
    OBSERVE = "observe"
    DISABLED = "disabled"


class DBChatChannel(Row):
    """A chat. If ``is_active`` is false or ``observe_mode`` is true, the bot does not answer in it.
    Its messages are stored in any case.

    ``id`` is made from the chat key (`row_number`).
    """

    id: int = 0
    chat_key: str = ""
    adapter_key: str = ""
    channel_id: str = ""
    channel_type: str = ""
    channel_name: str = ""
    is_active: bool = True
    observe_mode: bool = False
    preset_id: int | None = None
    data: str = "{}"
    conversation_start_time: datetime | None = None
    create_time: datetime | None = None
    update_time: datetime | None = None

    @classmethod
    async def source(cls) -> RowSource:
        """See `Row.source`."""
        host = current_host()
        return TableSource(
            queries=host.store.queries,
            table="chats",
            read=lambda row: (host, ChatKey.parse(row["chat_key"]), row["first_seen"]),
            columns=_COLUMNS,
            orders={"chat_key": "chat_key", "create_time": "first_seen"},
            default_order="chat_key",
        )

    @classmethod
    def of(cls, row: Any) -> Self:
        """See `Row.of`."""
        host, key, first_seen = row
        return cls.made(host, key, first_seen)

    @classmethod
    def made(cls, host: NekroAgentHost, key: ChatKey, first_seen: float = 0.0) -> Self:
        """Make the row of a chat. The chat may have no messages yet. If ``first_seen`` is 0, the
        time comes from `NekroAgentHost.first_seen`."""
        extra = host.extra_chats.get(str(key))
        at = datetime.fromtimestamp(first_seen or host.first_seen(key)).astimezone()
        began = extra.get("conversation_start_time")
        return cls(
            id=row_number(str(key)),
            chat_key=str(key),
            adapter_key=host.adapter_of(key),
            channel_id=f"{key.kind.value}_{key.native_id}",
            channel_type=key.kind.value,
            channel_name=extra.get("channel_name") or _name(host, key),
            is_active=extra.get("is_active", True),
            observe_mode=extra.get("observe_mode", False),
            preset_id=extra.get("preset_id"),
            data=extra.get("data", "{}"),
            conversation_start_time=datetime.fromisoformat(began) if began else at,
            create_time=at,
            update_time=at,
        )

    @classmethod
    async def get_channel(cls, chat_key: str, *_: Any, **__: Any) -> Self:
        """Get the row of a chat. Raises `ChatKeyError` for an invalid chat key."""
        row: Self | None = await cls.get_or_none(chat_key=chat_key)
        return row or cls.made(current_host(), ChatKey.parse(chat_key))

    @property
    def chat_type(self) -> ChatType:
        """The kind of the chat: ``group``, ``private`` or ``channel``."""
        return ChatType(self.channel_type)

    @property
    def platform_channel_id(self) -> str:
        """The platform's id of the chat."""
        return self.channel_id.partition("_")[2]

    async def get_channel_data(self) -> dict[str, Any]:
        """Read the data that plugins have stored for the chat."""
        data: dict[str, Any] = json.loads(self.data or "{}")
        return data

    async def save_channel_data(self, data: Mapping[str, Any]) -> None:
        """Replace the data that plugins have stored for the chat."""
        self.data = json.dumps(dict(data), ensure_ascii=False)
        await self.save()

    async def set_active(self, is_active: bool) -> None:
        """Switch the bot's answers in this chat on or off."""
        self.is_active = is_active
        await self.save()

    @property
    def channel_status(self) -> ChannelStatus:
        """Whether the bot answers in this chat."""
        if not self.is_active:
            return ChannelStatus.DISABLED
        return ChannelStatus.OBSERVE if self.observe_mode else ChannelStatus.ACTIVE

    async def set_channel_status(self, status: ChannelStatus | str) -> None:
        """Switch the bot's answers in this chat on or off. Raises `ValueError` if ``status`` is not
        a `ChannelStatus`."""
        status = ChannelStatus(status)
        self.is_active = status is not ChannelStatus.DISABLED
        self.observe_mode = status is ChannelStatus.OBSERVE
        await self.save()

    async def reset_channel(self, *_: Any, **__: Any) -> None:
        """Reset the chat: the model no longer sees earlier messages. Raises `NotKept` if this bot
        does not support it."""
        host = current_host()
        if host.reset is None:
            raise NotKept("this bot cannot reset a chat")
        await host.reset(ChatKey.parse(self.chat_key))
        self.conversation_start_time = datetime.now().astimezone()
        await self.save()

    async def get_effective_config(self) -> CoreConfig:
        """The bot's configuration, which is the same for all chats."""
        return config

    async def get_preset(self) -> DBPreset:
        """The preset of the chat; if it has none, the bot's own preset (`DefaultPreset`)."""
        preset = await DBPreset.get_or_none(id=self.preset_id) if self.preset_id else None
        return preset or DefaultPreset.from_settings(current_host())

    async def set_preset(self, preset_id: int | None = None) -> None:
        """Set the preset of the chat; None means the bot's own preset."""
        self.preset_id = preset_id
        await self.save()

    async def save(self, *_: Any, **__: Any) -> None:
        """Store the fields that plugins may change, which are the fields without a column."""
        facts = {name: getattr(self, name) for name in _IN_FILE}
        began = facts["conversation_start_time"]
        facts["conversation_start_time"] = began.isoformat() if began else None
        host, key = current_host(), ChatKey.parse(self.chat_key)
        if facts["channel_name"] == _name(host, key):
            facts["channel_name"] = ""
        host.extra_chats.put(str(key), facts)


def _name(host: NekroAgentHost, key: ChatKey) -> str:
    """The chat's name on its platform; its id if the name is not known."""
    return host.store.chats.name(key) or key.native_id
