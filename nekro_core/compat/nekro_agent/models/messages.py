"""Messages for a model in the form of OpenAI's API, and their conversion to `PromptMessage`."""

import base64
import binascii
import mimetypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, cast

from nekro_core.llm.model import AudioPart, ImagePart, Part, PromptMessage, TextPart
from nekro_core.media.sniff import sniff
from nekro_core.tools.outcome import InvalidValue

Segment = dict[str, Any]
"""One part of a message's content, in the form of OpenAI's API."""


class ContentSegment:
    """Makes the parts of a message."""

    @staticmethod
    def text_content(text: str) -> Segment:
        """Make a text part.

        Args:
            text: The text.

        Returns:
            ``{"type": "text", ...}``.
        """
        return {"type": "text", "text": text}

    @staticmethod
    def image_content(image_url: str) -> Segment:
        """Make a picture part from an address.

        Args:
            image_url: An ``http(s)`` address, or a ``data:`` URL with base64.

        Returns:
            ``{"type": "image_url", ...}``.
        """
        return {"type": "image_url", "image_url": {"url": image_url}}

    @classmethod
    def image_content_from_path(cls, image_path: str | Path) -> Segment:
        """Make a picture part from a file on the host. Raises `OSError` if the file cannot be read.

        Args:
            image_path: The path of the file. The type of the picture is guessed from the file's
                name; if that fails, from its bytes.

        Returns:
            ``{"type": "image_url", ...}`` with a ``data:`` URL.
        """
        path = Path(image_path)
        return cls.image_content_from_bytes(
            path.read_bytes(), mimetypes.guess_type(path.name)[0] or ""
        )

    @classmethod
    def image_content_from_bytes(cls, image_bytes: bytes, mime: str = "") -> Segment:
        """Make a picture part from bytes.

        Args:
            image_bytes: The picture. Its size is not checked here; the provider may limit it.
            mime: The type, for example ``image/png`` or ``png``. If empty, the type is read from
                the bytes.

        Returns:
            ``{"type": "image_url", ...}`` with a ``data:`` URL.
        """
        kind = mime if "/" in mime else (f"image/{mime}" if mime else _image_type(image_bytes))
        return cls.image_content(f"data:{kind};base64,{base64.b64encode(image_bytes).decode()}")


class OpenAIChatMessage:
    """A message for a model. The attribute ``content`` is a list of parts.

    Args:
        role: ``system``, ``developer``, ``user`` or ``assistant``. It is checked when the message
            is sent.
        content: A text, which becomes one part, or a list of parts that `ContentSegment` made.
    """

    def __init__(self, role: str, content: str | Iterable[Segment] = ()) -> None:
        self.role = role
        self.content: list[Segment] = (
            [ContentSegment.text_content(content)] if isinstance(content, str) else [*content]
        )

    @classmethod
    def from_text(cls, role: str, text: str) -> Self:
        """Make a message that contains only text.

        Args:
            role: The same as for the class.
            text: The text.

        Returns:
            The message.
        """
        return cls(role, text)

    @classmethod
    def from_template(cls, role: str, template: Any, env: Any = None, **values: Any) -> Self:
        """Make a message from a template.

        Args:
            role: The same as for the class.
            template: An object with a method ``render``, such as a Jinja template. Any other object
                is converted to text.
            env: If it is not None, the only argument of ``render``.
            values: The keyword arguments of ``render`` if ``env`` is None.

        Returns:
            The message.
        """
        render = getattr(template, "render", None)
        if render is None:
            return cls(role, str(template))
        return cls(role, str(render(env) if env is not None else render(**values)))

    @classmethod
    def create_empty(cls, role: str) -> Self:
        """Make a message without parts, to which parts can be added.

        Args:
            role: The same as for the class.

        Returns:
            A message without parts.
        """
        return cls(role)

    def add(self, segment: Segment | str) -> Self:
        """Add a part.

        Args:
            segment: A part, or a text that becomes a part.

        Returns:
            This message.
        """
        part = ContentSegment.text_content(segment) if isinstance(segment, str) else segment
        self.content.append(part)
        return self

    def batch_add(self, segments: Iterable[Segment | str]) -> Self:
        """Add several parts.

        Args:
            segments: The parts. A text becomes a part.

        Returns:
            This message.
        """
        for segment in segments:
            self.add(segment)
        return self

    def extend(self, other: "OpenAIChatMessage | Iterable[Segment | str]") -> Self:
        """Add the parts of another message.

        Args:
            other: The message, or a list of parts and texts.

        Returns:
            This message.
        """
        return self.batch_add(other.content if isinstance(other, OpenAIChatMessage) else other)

    def tidy(self) -> Self:
        """Join neighbouring text parts into one part.

        Returns:
            This message.
        """
        tidied: list[Segment] = []
        for part in self.content:
            if part.get("type") == "text" and tidied and tidied[-1].get("type") == "text":
                tidied[-1] = ContentSegment.text_content(tidied[-1]["text"] + part["text"])
            else:
                tidied.append(part)
        self.content = tidied
        return self

    def to_dict(self) -> dict[str, Any]:
        """Convert the message to the form of OpenAI's API.

        Returns:
            A dict with ``role`` and ``content``. The content is the list of this message, not a
            copy.
        """
        return {"role": self.role, "content": self.content}


Given = OpenAIChatMessage | Mapping[str, Any]

_ROLES: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def prompt_message(given: Given) -> PromptMessage:
    """Convert a message to a `PromptMessage`. Raises `InvalidValue` for invalid parts, and
    `TypeError` for content that is neither a text nor a list."""
    message = given.to_dict() if isinstance(given, OpenAIChatMessage) else given
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        known = ", ".join(_ROLES)
        raise InvalidValue(f"a message of role {message.get('role')!r}: expected one of {known}")
    content = message.get("content")
    if content is None or isinstance(content, str):
        return PromptMessage.of(role, content or "")
    if not isinstance(content, list):
        raise TypeError(f"a content of {type(content).__name__}: expected text or a list of parts")
    return PromptMessage(role, tuple(_part(each) for each in content))


def _part(part: Any) -> Part:
    if isinstance(part, str):
        return TextPart(part)
    kind = part.get("type") if isinstance(part, Mapping) else None
    try:
        match kind:
            case "text":
                return TextPart(str(part["text"]))
            case "image_url":
                given = part["image_url"]
                return _image(given if isinstance(given, str) else given["url"])
            case "input_audio":
                sound = part["input_audio"]
                form = cast(Literal["wav", "mp3"], sound.get("format", "wav"))
                return AudioPart(_decoded(sound["data"]), form)
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise InvalidValue(f"a part of type {kind!r} without its content: {error!r}") from None
    raise InvalidValue(f"a part of type {kind!r}: expected text, image_url or input_audio")


def _image(url: str) -> ImagePart:
    if not url.startswith("data:"):
        return ImagePart(url=url)
    head, _, data = url.partition(",")
    return ImagePart(_decoded(data), mime=head[5:].partition(";")[0] or "image/png")


def _decoded(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def _image_type(data: bytes) -> str:
    kind, _ = sniff(data)
    return kind if kind.startswith("image/") else "image/png"
