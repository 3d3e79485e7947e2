"""Makes the outcome of a call from the value that the handler returned. The tool's kind decides
which values are allowed."""

import inspect
from dataclasses import dataclass
from typing import Any, assert_never

from nekro_core.system.errors import NekroError
from nekro_core.tools.content import Content, ContentError, contents
from nekro_core.tools.media import ResultMedia
from nekro_core.tools.tool import Tool, ToolKind


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A tool of the kind ``TOOL`` succeeded. The calling code gets the value and continues. A model
    that calls natively gets ``text``, or the value as text if ``text`` is empty. ``ends`` says that
    the model need not be asked again, provided that the chat has got an answer. It is True if the
    tool itself has answered the chat, or if the result only confirms what was done."""

    value: Any
    text: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True)
class ToolReturnMedia:
    """A tool of the kind ``TOOL`` succeeded and returned media. The calling code gets the text with
    an index of the media, and continues. The model sees the media in the next step. ``ends`` says
    that the tool has answered the chat, so a model that calls natively need not be asked again."""

    text: str
    media: tuple[ResultMedia, ...]
    ends: bool = False


@dataclass(frozen=True, slots=True)
class BehaviorReturn:
    """A tool of the kind ``BEHAVIOR`` succeeded. The code gets the text, and the text is added to
    the chat's history."""

    text: str


@dataclass(frozen=True, slots=True)
class Observation:
    """A tool of the kind ``AGENT`` succeeded. The run ends, and a new step begins with the text."""

    text: str


@dataclass(frozen=True, slots=True)
class RichObservation:
    """A tool of the kind ``MULTIMODAL_AGENT`` succeeded. The run ends, and a new step begins with
    the parts."""

    parts: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class ToolCallFailed:
    """The call failed. The code gets a ``ToolError`` with this message, which is also in the call's
    log. The message has no text about the host, except text that the plugin chose to show."""

    message: str


Outcome = (
    ToolReturn | ToolReturnMedia | BehaviorReturn | Observation | RichObservation | ToolCallFailed
)


class ToolFailure(NekroError):
    """Raised by a handler to tell the calling code why the tool cannot do what was asked.

    The model gets the unchanged message. Of most other exceptions, the model gets only the type,
    since the text may contain paths and keys of the host (see `public_error_text`).
    """


class InvalidValue(NekroError, ValueError):
    """The bot refuses a value that a tool passed to it. The model may see the text."""


_OURS = __name__.partition(".")[0]
_OF_VALUES = (ValueError, LookupError, ArithmeticError)


def public_error_text(error: BaseException) -> str:
    """Get the text of a tool's exception, if code in a box and a model may read it. Otherwise
    return an empty text.

    This function returns the text of a `ToolFailure`, and of every `ValueError`, `LookupError` or
    `ArithmeticError` whose class the bot itself defines (such as `InvalidValue` and
    `ChatKeyError`), because these texts are written for the caller. It returns no other texts, not
    even the texts of Python's own errors. For example, ``tokens[name]`` raises a `KeyError` with
    the key in its text, and ``int(key)`` raises a `ValueError` with the value.
    """
    ours = isinstance(error, _OF_VALUES) and type(error).__module__.partition(".")[0] == _OURS
    return str(error) if ours or isinstance(error, ToolFailure) else ""


def outcome_of(tool: Tool, value: Any) -> Outcome:
    """Make the outcome of a handler's return value. If the tool's kind does not allow the value,
    the outcome is `ToolCallFailed`. But if the tool ``converts_result`` and its kind requires a
    `str`, another value is converted to text."""
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        return ToolCallFailed(
            f"{tool.name} returned {_type_name(value)} instead of a result: "
            "its author forgot an await"
        )
    match tool.kind:
        case ToolKind.TOOL:
            # A handler that wraps a tool of an MCP server or of another bot may return an outcome.
            if isinstance(value, ToolReturn | ToolReturnMedia):
                return value
            return ToolReturn(value, ends=tool.confirms)
        case ToolKind.BEHAVIOR | ToolKind.AGENT if not isinstance(value, str):
            if tool.converts_result:
                text = f"{tool.name} returned nothing" if value is None else _text_of(value)
                return outcome_of(tool, text)
            return ToolCallFailed(
                f"{tool.name} returned {_type_name(value)}: a tool of kind {tool.kind.value} "
                "must return str"
            )
        case ToolKind.BEHAVIOR:
            return BehaviorReturn(value)
        case ToolKind.AGENT:
            return Observation(value)
        case ToolKind.MULTIMODAL_AGENT:
            try:
                return RichObservation(contents(value))
            except ContentError as error:
                return ToolCallFailed(f"{tool.name} returned malformed content: {error}")
        case _:
            assert_never(tool.kind)


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - a plugin's own class
        return f"a {_type_name(value)} without text: {type(error).__name__}"


def _type_name(value: Any) -> str:
    return "None" if value is None else type(value).__name__
