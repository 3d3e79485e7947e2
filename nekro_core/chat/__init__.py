"""The values that every other room speaks in. No I/O, nothing imported from above."""

from nekro_core.chat.delivery import Delivery, DeliveryState, Receipt
from nekro_core.chat.key import MAX_KEY_LENGTH, ChatKey, ChatKeyError, ChatKind
from nekro_core.chat.markup import sound_html
from nekro_core.chat.message import ChatMessage, Role, Sender
from nekro_core.chat.record import NEW_BEGINNING, Author, Record, RunRecord
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
    plain_text,
)

__all__ = [
    "EVERYONE",
    "MAX_KEY_LENGTH",
    "NEW_BEGINNING",
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
    "plain_text",
    "sound_html",
]
