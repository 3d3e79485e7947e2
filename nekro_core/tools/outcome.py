"""The outcome of a call: the value that a handler returned, checked against its tool's kind."""

import inspect
from dataclasses import dataclass
from typing import Any, assert_never

from nekro_core.system.errors import NekroError
from nekro_core.tools.content import Content, ContentError, contents
from nekro_core.tools.media import ResultMedia
from nekro_core.tools.tool import Tool, ToolKind


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A ``TOOL`` worked: the calling code gets the value, the turn is untouched. ``text`` is what a
    model that calls natively is told, where that is not the value as text. ``ends``: the tool has
    answered the chat, and such a model need not be asked again."""

    value: Any
    text: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True)
class ToolReturnMedia:
    """A ``TOOL`` worked and has something to show: the calling code gets the words, with an index
    of the media, and goes on; the model sees the media in the next step."""

    text: str
    media: tuple[ResultMedia, ...]


@dataclass(frozen=True, slots=True)
class BehaviorReturn:
    """A ``BEHAVIOR`` worked: the code gets the text, and the chat's record too."""

    text: str


@dataclass(frozen=True, slots=True)
class Observation:
    """An ``AGENT`` worked: the run ends and the text opens a new step."""

    text: str


@dataclass(frozen=True, slots=True)
class RichObservation:
    """A ``MULTIMODAL_AGENT`` worked: the run ends and the parts open a new step."""

    parts: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class ToolCallFailed:
    """The call did not work. The code gets a ``ToolError`` with this message, and the record says
    so. It never holds anything of the host that its plugin did not mean to tell."""

    message: str


Outcome = (
    ToolReturn | ToolReturnMedia | BehaviorReturn | Observation | RichObservation | ToolCallFailed
)


class ToolFailure(NekroError):
    """Raised by a handler to tell the calling code why it cannot do what was asked.

    Its message reaches the model as it stands. Other exceptions are reported by their type, for
    their text may hold paths and keys of the host (see `public_error_text`).
    """


class InvalidValue(NekroError, ValueError):
    """What our own code raises for a value that a tool passed on: its text may be told."""


_OURS = __name__.partition(".")[0]
_OF_VALUES = (ValueError, LookupError, ArithmeticError)


def public_error_text(error: BaseException) -> str:
    """What the code in a box, or a model, may read of an exception that came out of a tool.

    The text of a `ToolFailure`, and of what our own checks of values raise (`InvalidValue`,
    `ChatKeyError`): we wrote it for whoever gave the value. Nothing of any other, of Python's own
    errors of values neither: ``tokens[name]`` raises a `KeyError` whose text is what was looked up,
    and ``int(key)`` a `ValueError` that holds the key.
    """
    ours = isinstance(error, _OF_VALUES) and type(error).__module__.partition(".")[0] == _OURS
    return str(error) if ours or isinstance(error, ToolFailure) else ""


def outcome_of(tool: Tool, value: Any) -> Outcome:
    """What a handler's return value means for its tool's kind; `ToolCallFailed` where it must not
    be."""
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        return ToolCallFailed(
            f"{tool.name} returned {_type_name(value)} instead of a result: "
            "its author forgot an await"
        )
    match tool.kind:
        case ToolKind.TOOL:
            # A handler that stands for one of another host says itself what its value means.
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
