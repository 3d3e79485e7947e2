"""A message as a plugin's message hook is given it (``LegacyChatMessage`` of existing plugins)."""

import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from nekro_core import chat
from nekro_core.chat import Author, Record, Reply, Segments, Sender, plain_text
from nekro_core.compat.nekro_agent.legacy_segments import (
    ChatMessageSegment,
    ChatMessageSegmentImage,
    ChatType,
    legacy_segments,
)

BOT_ID = "-1"
"""``sender_id`` of what the bot itself or the framework said."""


class LegacyChatMessage(BaseModel):
    """One message. ``chat_type`` is a plain string; ``is_tome`` counts 1 or 0, ``send_timestamp``
    seconds since 1970. `source` is the same in the words of `nekro_core.api.chat`."""

    model_config = ConfigDict(use_enum_values=True)

    message_id: str = ""
    sender_id: str = ""
    sender_name: str = ""
    sender_nickname: str = ""
    adapter_key: str = ""
    platform_userid: str = ""
    is_tome: int = 0
    is_recalled: bool = False
    chat_key: str = ""
    chat_type: ChatType = Field(default=ChatType.UNKNOWN, validate_default=True)
    content_text: str = ""
    content_data: list[ChatMessageSegment] = Field(default_factory=list)
    raw_cq_code: str = ""
    ext_data: dict[str, Any] = Field(default_factory=dict)
    send_timestamp: int = 0

    _source: chat.ChatMessage | None = PrivateAttr(default=None)

    @classmethod
    def create_empty(cls, chat_key: str = "") -> Self:
        """One without words."""
        return cls(chat_key=chat_key, chat_type=ChatType.from_chat_key(chat_key))

    @classmethod
    def of(cls, message: chat.ChatMessage, adapter_key: str = "") -> Self:
        """What an adapter took in."""
        made = cls(
            **_facts(message.chat_key, message.sender, message.segments, adapter_key),
            message_id=message.message_id,
            is_tome=int(message.to_bot),
            send_timestamp=int(message.time),
        )
        made._source = message
        return made

    @classmethod
    def of_record(cls, record: Record, adapter_key: str = "") -> Self:
        """One line of a chat's history; `source` is not known of it."""
        made = cls(
            **_facts(record.chat_key, record.sender, record.segments, adapter_key),
            message_id=record.message_id,
            is_tome=int(record.to_bot),
            is_recalled=record.recalled,
            send_timestamp=int(record.time),
        )
        if record.author is not Author.PERSON:
            made.sender_id = BOT_ID
            made.platform_userid = "0"
            if record.author is Author.SYSTEM:
                made.sender_name = made.sender_nickname = "SYSTEM"
        return made

    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return not self.content_text.strip() and not self.content_data

    def get_images(self) -> list[ChatMessageSegmentImage]:
        """The pictures of it."""
        return [each for each in self.content_data if isinstance(each, ChatMessageSegmentImage)]

    @property
    def sender_real_nickname(self) -> str:
        """The same as ``sender_nickname``."""
        return self.sender_nickname

    @property
    def source(self) -> chat.ChatMessage:
        """The message as the adapter understood it. Raises `LookupError` for one that a plugin made
        or that was read from the history."""
        if self._source is None:
            raise LookupError("this message was not heard: only a hook's own has a source")
        return self._source

    @property
    def text(self) -> str:
        """What a person would read aloud: ``content_text``."""
        return self.content_text

    @property
    def sender(self) -> Sender:
        """Who wrote."""
        return self._source.sender if self._source else Sender(self.sender_id, self.sender_name)

    @property
    def segments(self) -> Segments:
        """The pieces in the words of `nekro_core.api.chat`. Raises `LookupError` as `source`."""
        return self.source.segments


def _facts(
    key: chat.ChatKey, sender: Sender, segments: Segments, adapter_key: str
) -> dict[str, Any]:
    replies = [each for each in segments if isinstance(each, Reply)]
    extra = {
        "ref_chat_key": str(key) if replies else "",
        "ref_msg_id": replies[0].message_id if replies else "",
        "ref_sender_id": replies[0].sender_id if replies else "",
    }
    return {
        "chat_key": str(key),
        "chat_type": ChatType(key.kind.value),
        "adapter_key": adapter_key or key.instance.partition(".")[0],
        "sender_id": sender.user_id,
        "platform_userid": sender.user_id,
        "sender_name": sender.name,
        "sender_nickname": sender.name,
        "content_text": plain_text(segments),
        "content_data": legacy_segments(segments),
        "ext_data": extra,
    }


def content_data_text(segments: Segments) -> str:
    """The pieces as the JSON text in which existing plugins read them from a row."""
    return json.dumps([each.model_dump() for each in legacy_segments(segments)], ensure_ascii=False)
