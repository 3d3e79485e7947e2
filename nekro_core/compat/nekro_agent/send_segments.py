"""What adapters of existing plugins are asked to send, and where to."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.compat.nekro_agent.legacy_segments import ChatType

__all__ = [
    "ChatType",
    "PlatformAtSegment",
    "PlatformChannel",
    "PlatformSendRequest",
    "PlatformSendResponse",
    "PlatformSendSegment",
    "PlatformSendSegmentType",
]


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
