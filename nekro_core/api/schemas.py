"""What a handler is given, and the pieces of messages."""

from nekro_core.plugin.agent_segments import (
    AgentMessageSegment,
    AgentMessageSegmentType,
    MessageContent,
)
from nekro_core.plugin.context import AgentCtx
from nekro_core.plugin.files import BoxFileSystem
from nekro_core.plugin.heard_segments import (
    ChatMessageSegment,
    ChatMessageSegmentAt,
    ChatMessageSegmentFile,
    ChatMessageSegmentForward,
    ChatMessageSegmentImage,
    ChatMessageSegmentJsonCard,
    ChatMessageSegmentPoke,
    ChatMessageSegmentType,
    ChatType,
)
from nekro_core.plugin.web.values import WebhookRequest

__all__ = [
    "AgentCtx",
    "AgentMessageSegment",
    "AgentMessageSegmentType",
    "BoxFileSystem",
    "ChatMessageSegment",
    "ChatMessageSegmentAt",
    "ChatMessageSegmentFile",
    "ChatMessageSegmentForward",
    "ChatMessageSegmentImage",
    "ChatMessageSegmentJsonCard",
    "ChatMessageSegmentPoke",
    "ChatMessageSegmentType",
    "ChatType",
    "MessageContent",
    "WebhookRequest",
]
