"""Defines what the console of a gateway asks another process, and the answers.

Requests and answers are JSON. A process accepts requests only from gateways: NATS forbids workers
to send them (`credentials.py`). A gateway does not trust an answer, because its sender may have
stolen a worker's credentials: it reads the answer as data of the expected type.
"""

import json
from enum import StrEnum
from typing import Any, Literal, assert_never

import msgspec

from nekro_core.cluster.errors import CallFailed
from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent
from nekro_core.tools.offer import ToolAnswer


class AskedBy(msgspec.Struct, frozen=True):
    """The person who asks: `nekro_core.operator.roles.Actor` without the scopes, which the gateway
    has checked."""

    name: str
    role: str
    origin: str
    address: str = ""


class StateRequest(msgspec.Struct, frozen=True, tag="state"):
    """Ask a process for its state."""


class OperationRequest(msgspec.Struct, frozen=True, tag="operation"):
    """Carry out a query or an action of an operator.

    Attributes:
        operation: Its full name, for example ``boxes.of_chat``.
        parameters: Its parameters by name, as JSON values.
        asked_by: The person who asks.
        chat_key: The chat whose owner is asked; empty if any process can carry it out.
    """

    operation: str
    parameters: dict[str, Any]
    asked_by: AskedBy
    chat_key: str = ""


class ToolRequest(msgspec.Struct, frozen=True, tag="tool"):
    """Call a tool for a program that an operator allows to call tools.

    Attributes:
        owner: The chat whose owner is asked: ``chat_key``, or `NO_CHAT` if that is empty.
        name: The tool's name.
        arguments: Its arguments by name, as JSON values.
        chat_key: The chat in which the tool is called; empty for a tool that needs no chat.
    """

    owner: str
    name: str
    arguments: dict[str, Any]
    chat_key: str = ""


ProcessRequest = StateRequest | OperationRequest | ToolRequest


class ProcessState(msgspec.Struct, frozen=True, tag="state"):
    """The state of a process.

    Attributes:
        node: Its name.
        version: Its version of nekro-core.
        started: When it started, in seconds since 1970.
        partitions: The number of partitions that it owns.
        turns_running: Turns that run now.
        turns_waiting: Turns that wait, because as many turns run as may run at once.
        chats: Chats with a session.
        boxes: Boxes of chats. Only boxes that run now are counted.
        memory: The memory of the process in bytes, without that of its boxes; 0 if it is not known.
        accounts: The connected accounts, each as the adapter's name, a space and the account.
        problem: Why it is not ready; empty if it is.
    """

    node: str
    version: str
    started: float
    partitions: int = 0
    turns_running: int = 0
    turns_waiting: int = 0
    chats: int = 0
    boxes: int = 0
    memory: int = 0
    accounts: tuple[str, ...] = ()
    problem: str = ""


class UndoData(msgspec.Struct, frozen=True):
    """The action that undoes a change."""

    action: str
    parameters: dict[str, Any]


class OperationDone(msgspec.Struct, frozen=True, tag="done"):
    """What a query returned, or what an action has changed, as JSON values. The fields are those of
    `nekro_core.operator.audit.Change`."""

    result: Any
    subject: str = ""
    old: Any = None
    new: Any = None
    undo: UndoData | None = None


class TextData(msgspec.Struct, frozen=True, tag="text"):
    """A text of a tool's answer."""

    text: str


class ImageData(msgspec.Struct, frozen=True, tag="image"):
    """A picture of a tool's answer: see `nekro_core.tools.content.ImageContent`."""

    data: bytes = b""
    mime: str = ""
    url: str = ""


class AudioData(msgspec.Struct, frozen=True, tag="audio"):
    """A sound of a tool's answer: see `nekro_core.tools.content.AudioContent`."""

    data: bytes
    format: Literal["wav", "mp3"]


class ToolDone(msgspec.Struct, frozen=True, tag="tool"):
    """The answer of a tool: see `nekro_core.tools.offer.ToolAnswer`."""

    content: tuple[TextData | ImageData | AudioData, ...]
    is_error: bool = False

    @classmethod
    def of(cls, answer: ToolAnswer) -> "ToolDone":
        """Return the message with a tool's answer."""
        return cls(tuple(map(_part, answer.content)), answer.is_error)

    def answer(self) -> ToolAnswer:
        """Return the tool's answer."""
        return ToolAnswer(content=tuple(map(_content, self.content)), is_error=self.is_error)


def _part(content: Content) -> TextData | ImageData | AudioData:
    match content:
        case TextContent(text):
            return TextData(text)
        case ImageContent():
            return ImageData(content.data, content.mime, content.url)
        case AudioContent():
            return AudioData(content.data, content.format)
        case _:
            assert_never(content)


def _content(part: TextData | ImageData | AudioData) -> Content:
    match part:
        case TextData(text):
            return TextContent(text)
        case ImageData(data, mime, url):
            return ImageContent(data=data, mime=mime, url=url)
        case AudioData(data, sound_format):
            return AudioContent(data=data, format=sound_format)
        case _:
            assert_never(part)


class RefusalKind(StrEnum):
    """Why a process has not carried out an operation."""

    NOT_OWNER = "not_owner"
    """The process does not own the chat (any more)."""
    NOT_ALLOWED = "not_allowed"
    PARAMETERS = "parameters"
    NO_SUCH_ITEM = "no_such_item"
    CHANGED = "changed"
    REFUSED = "refused"
    """Another error whose text is written for people."""


class OperationRefused(msgspec.Struct, frozen=True, tag="refused"):
    """A process has not carried out an operation. ``problems`` says what is wrong with each faulty
    parameter, by the parameter's name."""

    kind: RefusalKind
    reason: str
    problems: dict[str, str] = {}


ProcessAnswer = ProcessState | OperationDone | ToolDone | OperationRefused


class StoredMessage(msgspec.Struct, frozen=True, tag="object"):
    """The request or answer is too large for a call. It is an object of the object store."""

    object_name: str


def encode_message(message: msgspec.Struct) -> bytes:
    """Return the JSON of a request or an answer. A half of a character (a lone surrogate) in a text
    is kept."""
    return json.dumps(msgspec.to_builtins(message)).encode()


def decode_request(data: bytes) -> ProcessRequest | StoredMessage:
    """Read a request. Raises `CallFailed`."""
    request: ProcessRequest | StoredMessage = _decoded(data, ProcessRequest | StoredMessage)
    return request


def decode_answer(data: bytes) -> ProcessAnswer | StoredMessage:
    """Read an answer. Raises `CallFailed`."""
    answer: ProcessAnswer | StoredMessage = _decoded(data, ProcessAnswer | StoredMessage)
    return answer


def _decoded(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.convert(json.loads(data), kind)
    except (ValueError, RecursionError) as error:
        # Another version may have other messages. (`msgspec.ValidationError` is a ValueError.)
        raise CallFailed(f"a message of another process cannot be read: {error}") from error
