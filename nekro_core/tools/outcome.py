"""Checks the value that a handler returned against its tool's kind, and makes the call's
outcome."""

import inspect
from dataclasses import dataclass
from typing import Any, assert_never

from nekro_core.system.errors import NekroError
from nekro_core.tools.content import Content, ContentError, contents
from nekro_core.tools.media import ResultMedia
from nekro_core.tools.tool import Tool, ToolKind


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A ``TOOL`` succeeded: the calling code gets the value, and the turn goes on. ``text`` is for
    a model that calls natively, where it differs from the value as text. ``ends`` says that the
    tool has answered the chat, so such a model need not be asked again."""

    value: Any
    text: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True)
class ToolReturnMedia:
    """A ``TOOL`` succeeded and returned media: the calling code gets the text, with an index of the
    media, and goes on. The model sees the media in the next step."""

    text: str
    media: tuple[ResultMedia, ...]


@dataclass(frozen=True, slots=True)
class BehaviorReturn:
    """A ``BEHAVIOR`` succeeded: the code gets the text, and it is added to the chat's history."""

    text: str


@dataclass(frozen=True, slots=True)
class Observation:
    """An ``AGENT`` succeeded: the run ends, and the text begins a new step."""

    text: str


@dataclass(frozen=True, slots=True)
class RichObservation:
    """A ``MULTIMODAL_AGENT`` succeeded: the run ends, and the parts begin a new step."""

    parts: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class ToolCallFailed:
    """The call failed. The code gets a ``ToolError`` with this message, and the log of the call has
    it. It contains no text of the host that the plugin did not mean to show."""

    message: str


Outcome = (
    ToolReturn | ToolReturnMedia | BehaviorReturn | Observation | RichObservation | ToolCallFailed
)


class ToolFailure(NekroError):
    """Raised by a handler to tell the calling code why it cannot do what was asked.

    Its message reaches the model as it stands. Other exceptions are reported only by their type,
    since their text may contain paths and keys of the host (see `public_error_text`).
    """


class InvalidValue(NekroError, ValueError):
    """The bot's own error for a value that a tool passed on. Its text may be shown to the model."""


_OURS = __name__.partition(".")[0]
_OF_VALUES = (ValueError, LookupError, ArithmeticError)


def public_error_text(error: BaseException) -> str:
    """The text of a tool's exception that the code in a box, or a model, may read; else empty.

    It returns the text of a `ToolFailure`, and of errors that the bot's own checks of values raise
    (`InvalidValue`, `ChatKeyError`), which is written for the caller. All other texts are withheld,
    even of Python's value errors: ``tokens[name]`` raises a `KeyError` with the key in its text,
    and ``int(key)`` a `ValueError` with the value.
    """
    ours = isinstance(error, _OF_VALUES) and type(error).__module__.partition(".")[0] == _OURS
    return str(error) if ours or isinstance(error, ToolFailure) else ""


def outcome_of(tool: Tool, value: Any) -> Outcome:
    """Make the outcome of a handler's return value, by its tool's kind; `ToolCallFailed` for a
    value that the kind does not allow."""
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        return ToolCallFailed(
            f"{tool.name} returned {_type_name(value)} instead of a result: "
            "its author forgot an await"
        )
    match tool.kind:
        case ToolKind.TOOL:
            # A handler that wraps a tool of another host returns its outcome itself.
            return value if isinstance(value, ToolReturn | ToolReturnMedia) else ToolReturn(value)
        case ToolKind.BEHAVIOR | ToolKind.AGENT if not isinstance(value, str):
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


def _type_name(value: Any) -> str:
    return "None" if value is None else type(value).__name__
