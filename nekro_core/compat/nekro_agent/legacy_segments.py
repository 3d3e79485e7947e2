"""The segments of a message in the form that plugins for nekro-agent read.

The segments are pydantic models with the names and types of nekro-agent. Their ``type`` is a plain
string.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any, Self
from urllib.parse import urlsplit

import anyio
from pydantic import BaseModel, ConfigDict, Field

from nekro_core.chat import (
    ChatKey,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Segment,
    Text,
    Unknown,
    Video,
    Voice,
    plain_text,
)
from nekro_core.delivery.media_contract import Expected
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.tools.outcome import ToolFailure


class ChatType(StrEnum):
    """The kind of a chat."""

    PRIVATE = "private"
    GROUP = "group"
    CHANNEL = "channel"
    UNKNOWN = "unknown"

    @classmethod
    def from_chat_key(cls, chat_key: str) -> "ChatType":
        """Read the kind of chat from a chat key.

        Args:
            chat_key: For example ``onebot_v11-group_30003``.

        Returns:
            The kind; ``unknown`` if the text contains no kind.
        """
        kind = chat_key.partition("-")[2].partition("_")[0]
        return cls(kind) if kind in set(cls) else cls.UNKNOWN


class ChatMessageSegmentType(StrEnum):
    """The kinds of segments."""

    TEXT = "text"
    IMAGE = "image"
    VOICE = "voice"
    VIDEO = "video"
    FILE = "file"
    REFERENCE = "reference"
    AT = "at"
    JSON_CARD = "json_card"
    FORWARD = "forward"
    POKE = "poke"


class ChatMessageSegment(BaseModel):
    """One segment of a message.

    Attributes:
        type: The kind of segment, as a plain string.
        text: The segment as plain text.
    """

    model_config = ConfigDict(use_enum_values=True)

    type: ChatMessageSegmentType
    text: str = ""


class ChatMessageSegmentAt(ChatMessageSegment):
    """A segment that mentions a person.

    Attributes:
        type: ``at``.
        target_platform_userid: The platform's id of the person; ``all`` is everybody.
        target_nickname: The person's name; empty if it is not known.
    """

    type: ChatMessageSegmentType = Field(default=ChatMessageSegmentType.AT, validate_default=True)
    target_platform_userid: str
    target_nickname: str = ""


class ChatMessageSegmentFile(ChatMessageSegment):
    """A file.

    Attributes:
        type: ``file``, ``image``, ``voice`` or ``video``.
        file_name: The file's name.
        local_path: The path of the bot's copy of the file on the host; None if there is no copy.
        remote_url: The address from which the file was fetched; None if it has no address.
    """

    type: ChatMessageSegmentType = Field(default=ChatMessageSegmentType.FILE, validate_default=True)
    file_name: str = ""
    local_path: str | None = None
    remote_url: str | None = None

    @classmethod
    async def create_from_url(
        cls, url: str, from_chat_key: str, file_name: str = "", use_suffix: str = "", **_: Any
    ) -> Self:
        """Fetch a file and store it like a file that the chat received.

        Raises `ToolFailure` if the file cannot be fetched, is larger than
        ``NEKRO_DELIVERY__MEDIA__MAX_BYTES`` (32 MiB unless set), or is not of this class's kind.
        Also raises `ChatKeyError`, and `RuntimeError` outside of a plugin's code.

        Args:
            url: An ``http(s)`` address, or a ``data:`` or ``base64://`` URL.
            from_chat_key: The chat that the file is stored for.
            file_name: The file's name; if empty, it is read from the address.
            use_suffix: An extension such as ``.png``, which replaces the extension of the name.

        Returns:
            The segment.
        """
        name = file_name or PurePath(urlsplit(url).path).name
        keeper, chat = _keeper(), ChatKey.parse(from_chat_key)
        medium = await keeper.keep_url(
            chat, url, name=_suffixed(name, use_suffix), expect=cls._expected()
        )
        return cls._kept(medium)

    @classmethod
    async def create_from_bytes(
        cls, _bytes: bytes, from_chat_key: str, file_name: str = "", use_suffix: str = "", **_: Any
    ) -> Self:
        """Store bytes like a file that the chat received. Raises the same errors as
        `create_from_url`.

        Args:
            _bytes: The file's content.
            from_chat_key: The chat that the file is stored for.
            file_name: The file's name.
            use_suffix: An extension such as ``.png``, which replaces the extension of the name.

        Returns:
            The segment.
        """
        keeper, chat = _keeper(), ChatKey.parse(from_chat_key)
        medium = await keeper.keep_bytes(
            chat, _bytes, name=_suffixed(file_name, use_suffix), expect=cls._expected()
        )
        return cls._kept(medium)

    @classmethod
    async def create_from_base64(
        cls,
        base64_str: str,
        from_chat_key: str,
        file_name: str = "",
        use_suffix: str = "",
        **_: Any,
    ) -> Self:
        """Store a file that is given as base64. Raises the same errors as `create_from_url`, and
        `ValueError` for invalid base64.

        Args:
            base64_str: The content, with or without ``base64://`` or ``data:...,`` before it.
            from_chat_key: The chat that the file is stored for.
            file_name: The file's name.
            use_suffix: An extension such as ``.png``, which replaces the extension of the name.

        Returns:
            The segment.
        """
        text = base64_str.removeprefix("base64://")
        if text.startswith("data:"):
            text = text.partition(",")[2]
        return await cls.create_from_bytes(
            base64.b64decode(text), from_chat_key, file_name, use_suffix
        )

    @classmethod
    async def create_from_local_path(
        cls,
        local_path: str | Path,
        from_chat_key: str,
        file_name: str = "",
        use_suffix: str = "",
        **_: Any,
    ) -> Self:
        """Store a copy of a file on the host. Raises the same errors as `create_from_url`, and
        `OSError` if the file cannot be read.

        Args:
            local_path: The path of the file. It is not checked, so never build it from a text of a
                model.
            from_chat_key: The chat that the file is stored for.
            file_name: The file's name; if empty, it is read from the path.
            use_suffix: An extension such as ``.png``, which replaces the extension of the name.

        Returns:
            The segment.
        """
        data = await anyio.Path(local_path).read_bytes()
        name = file_name or PurePath(local_path).name
        return await cls.create_from_bytes(data, from_chat_key, name, use_suffix)

    create_form_local_path = create_from_local_path  # plugins use this misspelled name too

    @classmethod
    def _expected(cls) -> Expected:
        return "file"

    @classmethod
    def _kept(cls, medium: Media) -> Self:
        if medium.problem:
            raise ToolFailure(medium.problem)
        return cls(
            file_name=medium.name,
            local_path=medium.path,
            remote_url=medium.url or None,
            text=f"[{cls.__name__.removeprefix('ChatMessageSegment')}: {medium.name}]",
        )


class ChatMessageSegmentImage(ChatMessageSegmentFile):
    """A picture.

    Attributes:
        type: ``image``.
    """

    type: ChatMessageSegmentType = Field(
        default=ChatMessageSegmentType.IMAGE, validate_default=True
    )

    @classmethod
    def _expected(cls) -> Expected:
        return "image"


class ChatMessageSegmentForward(ChatMessageSegment):
    """Forwarded messages, as text.

    Attributes:
        type: ``forward``.
        forward_content: One line for each message, with the name of its sender and its text.
    """

    type: ChatMessageSegmentType = Field(
        default=ChatMessageSegmentType.FORWARD, validate_default=True
    )
    forward_content: str = ""


class ChatMessageSegmentJsonCard(ChatMessageSegment):
    """A card that an application of the platform shows.

    Attributes:
        type: ``json_card``.
        json_data: The data of the card; empty if it is not a JSON object.
        card_title: The first 200 characters of the card's text.
        card_desc: Always None, because adapters do not read it.
        card_icon: Always None.
        card_preview: Always None.
        card_url: Always None.
        share_from_nick: Always None.
    """

    type: ChatMessageSegmentType = Field(
        default=ChatMessageSegmentType.JSON_CARD, validate_default=True
    )
    json_data: dict[str, Any] = Field(default_factory=dict)
    card_title: str | None = None
    card_desc: str | None = None
    card_icon: str | None = None
    card_preview: str | None = None
    card_url: str | None = None
    share_from_nick: str | None = None


class ChatMessageSegmentPoke(ChatMessageSegment):
    """A segment that says that a person was poked.

    Attributes:
        type: ``poke``.
        target_platform_userid: The platform's id of the poked person.
        target_nickname: Always None, because adapters do not read it.
        poke_style: Always None.
        poke_style_name: Always None.
        poke_style_id: Always None.
    """

    type: ChatMessageSegmentType = Field(default=ChatMessageSegmentType.POKE, validate_default=True)
    target_platform_userid: str = ""
    target_nickname: str | None = None
    poke_style: str | None = None
    poke_style_name: str | None = None
    poke_style_id: int | None = None


_CLASSES: Mapping[str, type[ChatMessageSegment]] = {
    ChatMessageSegmentType.AT: ChatMessageSegmentAt,
    ChatMessageSegmentType.IMAGE: ChatMessageSegmentImage,
    ChatMessageSegmentType.VOICE: ChatMessageSegmentFile,
    ChatMessageSegmentType.VIDEO: ChatMessageSegmentFile,
    ChatMessageSegmentType.FILE: ChatMessageSegmentFile,
    ChatMessageSegmentType.FORWARD: ChatMessageSegmentForward,
    ChatMessageSegmentType.JSON_CARD: ChatMessageSegmentJsonCard,
    ChatMessageSegmentType.POKE: ChatMessageSegmentPoke,
}


def segment_from_dict(data: Mapping[str, Any]) -> ChatMessageSegment:
    """Make a segment from a dict. The ``type`` in the dict chooses the class. Raises pydantic's
    `ValidationError`."""
    return _CLASSES.get(str(data.get("type")), ChatMessageSegment).model_validate(dict(data))


def segments_from_list(data: Iterable[Mapping[str, Any]]) -> list[ChatMessageSegment]:
    """Make segments from dicts. Raises the same error as `segment_from_dict`."""
    return [segment_from_dict(each) for each in data]


def legacy_segments(segments: Iterable[Segment]) -> list[ChatMessageSegment]:
    """Convert the segments of a message. A reply segment is left out, because it is in
    ``ChatMessage.ext_data``."""
    return [_legacy_segment(each) for each in segments if not isinstance(each, Reply)]


def _legacy_segment(segment: Segment) -> ChatMessageSegment:
    text = plain_text((segment,))
    match segment:
        case Mention(user_id, name):
            return ChatMessageSegmentAt(
                text=text, target_platform_userid=user_id, target_nickname=name
            )
        case Image(media):
            return ChatMessageSegmentImage(text=text, **_file(media))
        case Voice() | Video() | File():
            kind = ChatMessageSegmentType(type(segment).__name__.lower())
            return ChatMessageSegmentFile(type=kind, text=text, **_file(segment.media))
        case Forward(messages):
            lines = (f"{each.sender_name}: {plain_text(each.segments)}" for each in messages)
            return ChatMessageSegmentForward(text=text, forward_content="\n".join(lines))
        case Notice(kind="poke", target_id=target):
            return ChatMessageSegmentPoke(text=text, target_platform_userid=target)
        case Unknown(kind="json", summary=summary):
            return ChatMessageSegmentJsonCard(
                text=text, json_data=_json(summary), card_title=summary[:200]
            )
    return ChatMessageSegment(type=ChatMessageSegmentType.TEXT, text=_words(segment, text))


def _words(segment: Segment, text: str) -> str:
    return segment.text if isinstance(segment, Text) else text


def _file(media: Media) -> dict[str, Any]:
    return {
        "file_name": media.name or PurePath(media.path).name,
        "local_path": media.path or None,
        "remote_url": media.url or None,
    }


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _suffixed(name: str, suffix: str) -> str:
    return f"{PurePath(name or 'file').stem}{suffix}" if suffix else name


def _keeper() -> Any:
    binding = effective_binding()
    if binding is None or binding.services is None:
        raise RuntimeError("no bot is known here: call this in a function that the bot calls")
    return binding.services.media
