"""Re-exports the types that a handler receives, and the segments of messages."""

from nekro_core.compat.nekro_agent.agent_segments import (
    AgentMessageSegment,
    AgentMessageSegmentType,
    MessageContent,
)
from nekro_core.compat.nekro_agent.legacy_segments import (
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
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.files import BoxFileSystem
from nekro_core.plugins.authoring.found_messages import FoundMessage, MessageMatches
from nekro_core.plugins.authoring.memory import ChatMemory, ChatNote, KnowledgeEntry
from nekro_core.plugins.authoring.web import WebhookRequest

__all__ = [
    "AgentCtx",
    "AgentMessageSegment",
    "AgentMessageSegmentType",
    "BoxFileSystem",
    "ChatMemory",
    "ChatMessageSegment",
    "ChatMessageSegmentAt",
    "ChatMessageSegmentFile",
    "ChatMessageSegmentForward",
    "ChatMessageSegmentImage",
    "ChatMessageSegmentJsonCard",
    "ChatMessageSegmentPoke",
    "ChatMessageSegmentType",
    "ChatNote",
    "ChatType",
    "FoundMessage",
    "KnowledgeEntry",
    "MessageContent",
    "MessageMatches",
    "WebhookRequest",
]
