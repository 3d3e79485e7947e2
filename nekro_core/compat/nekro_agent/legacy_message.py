"""`LegacyChatMessage`: the form of a message that hooks of plugins for nekro-agent get."""

import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from nekro_core import chat
from nekro_core.chat import Author, Mention, Record, Reply, Segments, Sender, plain_text
from nekro_core.chat.mentions import AtMention
from nekro_core.compat.nekro_agent.legacy_segments import (
    ChatMessageSegment,
    ChatMessageSegmentImage,
    ChatType,
    legacy_segments,
)

BOT_ID = "-1"
"""The ``sender_id`` of messages of the bot and of the framework."""


class LegacyChatMessage(BaseModel):
    """A message in nekro-agent's form. `source` is the same message as a `ChatMessage` of
    `nekro_core.api.chat`.

    Attributes:
        message_id: The platform's id of the message; empty if there is none.
        sender_id: The platform's id of the author; ``-1`` for the bot and the framework.
        sender_name: The author's name.
        sender_nickname: The same as ``sender_name``.
        adapter_key: The name of the adapter, such as ``onebot_v11``.
        platform_userid: The platform's id of the author; ``0`` for the bot and the framework.
        is_tome: 1 if the bot is addressed, else 0.
        is_recalled: Whether the message was recalled.
        chat_key: The chat.
        chat_type: The kind of chat as a plain string: ``private``, ``group``, ``channel`` or
            ``unknown``.
        content_text: The message as plain text, in which a mention is
            ``[@id:10001;nickname:Lin@]``.
        content_data: The segments.
        raw_cq_code: Always empty, because the platform's format of a message is not stored.
        ext_data: ``ref_chat_key``, ``ref_msg_id`` and ``ref_sender_id`` of the message to which
            this message replies; empty texts if it is no reply.
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
            chat_key: The chat. Its kind becomes ``chat_type``.

        Returns:
            The message. It has no `source`.
        """
        return cls(chat_key=chat_key, chat_type=ChatType.from_chat_key(chat_key))

    @classmethod
    def of(cls, message: chat.ChatMessage, adapter_key: str = "") -> Self:
        """Convert a message that an adapter received.

        Args:
            message: The received message. It becomes the `source`.
            adapter_key: The name of the adapter; if empty, it is read from the chat key.

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
        """Convert one record of a chat's history.

        Args:
            record: The record.
            adapter_key: The name of the adapter; if empty, it is read from the chat key.

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
        """Check whether the message is empty.

        Returns:
            True if there are no segments, and the text is empty or only white space.
        """
        return not self.content_text.strip() and not self.content_data

    def get_images(self) -> list[ChatMessageSegmentImage]:
        """List the pictures.

        Returns:
            The picture segments, in their order.
        """
        return [each for each in self.content_data if isinstance(each, ChatMessageSegmentImage)]

    @property
    def sender_real_nickname(self) -> str:
        """The same as ``sender_nickname``."""
        return self.sender_nickname

    @property
    def source(self) -> chat.ChatMessage:
        """The message that the adapter received.

        Raises:
            LookupError: This object was not made from a received message: a plugin made it, or it
                was read from the history.
        """
        if self._source is None:
            raise LookupError("only a message that a hook gets from an adapter has a source")
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
        """The segments as values of `nekro_core.api.chat`. Raises `LookupError` in the same case as
        `source`."""
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
        "content_text": content_text(segments),
        "content_data": legacy_segments(segments),
        "ext_data": extra,
    }


def content_text(segments: Segments) -> str:
    """The segments as text, in which mentions have the form that plugins search for. This form
    always has a name, because plugins read the id up to the semicolon before the name."""
    return "".join(
        _mention(each) if isinstance(each, Mention) else plain_text((each,)) for each in segments
    )


def _mention(mention: Mention) -> str:
    name = "".join(each for each in mention.name if each not in "@＠[]【】\n")
    return AtMention(mention.user_id, name.strip() or mention.user_id).markup


def content_data_text(segments: Segments) -> str:
    """The segments as JSON text, in the form that plugins read from a row."""
    return json.dumps([each.model_dump() for each in legacy_segments(segments)], ensure_ascii=False)
