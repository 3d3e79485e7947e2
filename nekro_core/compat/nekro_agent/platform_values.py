"""The values that adapters of nekro-agent take and return."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.compat.nekro_agent.legacy_segments import ChatType


class PlatformUser(BaseModel):
    """A person on a platform."""

    platform_name: str = ""
    user_id: str = ""
    user_name: str = ""
    user_avatar: str = ""


class PlatformSendSegmentType(StrEnum):
    """The kinds of segments in a request."""

    TEXT = "text"
    AT = "at"
    IMAGE = "image"
    FILE = "file"


class PlatformAtSegment(BaseModel):
    """A mentioned person."""

    platform_user_id: str
    nickname: str | None = None


class PlatformSendSegment(BaseModel):
    """One segment of a request."""

    model_config = ConfigDict(use_enum_values=True)

    type: PlatformSendSegmentType
    content: str = ""
    at_info: PlatformAtSegment | None = None
    file_path: str | None = None


class PlatformSendRequest(BaseModel):
    """A request to send segments to a chat."""

    chat_key: str
    segments: list[PlatformSendSegment] = Field(default_factory=list)
    ref_msg_id: str | None = None


class PlatformSendResponse(BaseModel):
    """The outcome of a `PlatformSendRequest`."""

    success: bool
    error_message: str | None = None
    message_id: str | None = None


class PlatformChannel(BaseModel):
    """A chat of a platform."""

    channel_id: str
    channel_name: str = ""
    channel_type: ChatType = ChatType.UNKNOWN
    channel_avatar: str = ""
