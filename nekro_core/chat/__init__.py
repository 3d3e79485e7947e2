"""The value types of messages, which all other packages of `nekro_core` use. This package does no
I/O."""

from nekro_core.chat.delivery import Delivery, DeliveryState, Receipt
from nekro_core.chat.key import MAX_KEY_LENGTH, ChatKey, ChatKeyError, ChatKind
from nekro_core.chat.markup import sound_html
from nekro_core.chat.message import ChatMessage, Role, Sender
from nekro_core.chat.record import CONVERSATION_RESET, Author, Record, RunRecord
from nekro_core.chat.segments import (
    EVERYONE,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Segment,
    Segments,
    Text,
    Unknown,
    Video,
    Voice,
    decode_segments,
    encode_segments,
    every_segment,
    plain_text,
)

__all__ = [
    "CONVERSATION_RESET",
    "EVERYONE",
    "MAX_KEY_LENGTH",
    "Author",
    "ChatKey",
    "ChatKeyError",
    "ChatKind",
    "ChatMessage",
    "Delivery",
    "DeliveryState",
    "File",
    "Forward",
    "ForwardedMessage",
    "Image",
    "Media",
    "Mention",
    "Notice",
    "Receipt",
    "Record",
    "Reply",
    "Role",
    "RunRecord",
    "Segment",
    "Segments",
    "Sender",
    "Text",
    "Unknown",
    "Video",
    "Voice",
    "decode_segments",
    "encode_segments",
    "every_segment",
    "plain_text",
    "sound_html",
]
