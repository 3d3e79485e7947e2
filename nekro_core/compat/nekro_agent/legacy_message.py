"""`LegacyChatMessage`: a message as the message hooks of existing plugins get it."""

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
"""``sender_id`` of messages of the bot itself or of the framework."""


class LegacyChatMessage(BaseModel):
    """One message. `source` is the same message as a value of `nekro_core.api.chat`.

    Attributes:
        message_id: The platform's id; empty if it gave none.
        sender_id: The platform's id of the author; ``-1`` for the bot and the framework.
        sender_name: The author's name.
        sender_nickname: The same.
        adapter_key: The adapter, such as ``onebot_v11``.
        platform_userid: As ``sender_id``; ``0`` for the bot and the framework.
        is_tome: 1 if the bot is addressed, else 0.
        is_recalled: Whether the message was recalled.
        chat_key: The chat.
        chat_type: The kind of chat as a plain string: ``private``, ``group``, ``channel`` or
            ``unknown``.
        content_text: The message as plain text.
        content_data: The pieces.
        raw_cq_code: Always empty: no platform's own format is stored.
        ext_data: ``ref_chat_key``, ``ref_msg_id`` and ``ref_sender_id`` of the message that it
            answers; empty texts if it answers none.
        send_timestamp: Whole seconds since 1970.
    """

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
        """Make an empty message.

        Args:
            chat_key: The chat; its kind becomes ``chat_type``.

        Returns:
            The message. It has no `source`.
        """
        return cls(chat_key=chat_key, chat_type=ChatType.from_chat_key(chat_key))

    @classmethod
    def of(cls, message: chat.ChatMessage, adapter_key: str = "") -> Self:
        """Convert a message that an adapter received.

        Args:
            message: The message as our own value; it becomes the `source`.
            adapter_key: The adapter; empty takes it from the chat key.

        Returns:
            The message.
        """
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
        """Convert one line of a chat's history.

        Args:
            record: The line.
            adapter_key: The adapter; empty takes it from the chat key.

        Returns:
            The message. It has no `source`.
        """
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
        """Tell whether the message is empty.

        Returns:
            True if there are no pieces, and no text except white space.
        """
        return not self.content_text.strip() and not self.content_data

    def get_images(self) -> list[ChatMessageSegmentImage]:
        """List the pictures.

        Returns:
            The pieces that are pictures, in their order.
        """
        return [each for each in self.content_data if isinstance(each, ChatMessageSegmentImage)]

    @property
    def sender_real_nickname(self) -> str:
        """The same as ``sender_nickname``."""
        return self.sender_nickname

    @property
    def source(self) -> chat.ChatMessage:
        """The message as the adapter understood it.

        Raises:
            LookupError: A plugin made the message, or it was read from the history.
        """
        if self._source is None:
            raise LookupError("this message was not heard: only a hook's own has a source")
        return self._source

    @property
    def text(self) -> str:
        """The message as plain text: ``content_text``."""
        return self.content_text

    @property
    def sender(self) -> Sender:
        """The author."""
        return self._source.sender if self._source else Sender(self.sender_id, self.sender_name)

    @property
    def segments(self) -> Segments:
        """The pieces as values of `nekro_core.api.chat`. Raises `LookupError` as `source` does."""
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
    """The pieces as the JSON text that existing plugins read from a row."""
    return json.dumps([each.model_dump() for each in legacy_segments(segments)], ensure_ascii=False)
