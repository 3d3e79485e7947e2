"""Describes a tool. Its stub, its schema and its validation are made from the description."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ToolKind(StrEnum):
    """What a call does to the turn (docs/plugins.md describes the four kinds)."""

    TOOL = "tool"
    AGENT = "agent"
    BEHAVIOR = "behavior"
    MULTIMODAL_AGENT = "multimodal_agent"

    @property
    def ends_run(self) -> bool:
        """Whether a call ends the run and opens a new step."""
        return self in (ToolKind.AGENT, ToolKind.MULTIMODAL_AGENT)


class Visibility(StrEnum):
    """When the model sees a tool: at once, when it searches, or never."""

    VISIBLE = "visible"
    DEFERRED = "deferred"
    HIDDEN = "hidden"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""`Parameter.default` of a parameter that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter as the model sees it; the context parameter is left out.

    ``annotation`` is the type that arguments are converted to (`Any` where the author gave none),
    ``type_text`` its text in the stub, ``schema`` its JSON Schema. ``convert`` converts an argument
    to that type, or raises `pydantic.ValidationError`. A ``variadic`` parameter is ``*args``, or
    ``**kwargs`` where it is ``keyword_only`` too.
    """

    name: str
    annotation: Any
    type_text: str
    schema: Mapping[str, Any]
    description: str = ""
    default: Any = REQUIRED
    keyword_only: bool = False
    variadic: bool = False
    convert: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    @property
    def required(self) -> bool:
        """Whether a call without it is an error."""
        return self.default is REQUIRED and not self.variadic


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A worked example from a tool's documentation: what a person says, and the code that answers.

    ``language`` is ``en``, ``zh`` or ``ja``, by the script of ``says``.
    """

    says: str
    code: str
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One function that the AI may call.

    ``name`` is the author's name for it, ``python_name`` the name of its function, ``module`` the
    plugin's short name (``module.python_name`` always works), ``owner`` the plugin's key.
    ``handler`` takes the context first, then the parameters. ``where`` is ``file:line`` for
    messages to its author. ``timeout_s`` bounds one call. A tool without ``needs_chat`` is also
    offered where there is no chat. One without ``for_small_models`` is not offered to a model that
    cannot work with the results of calls. ``adapters`` are those in whose chats it is offered; none
    means all. ``sleep_brief`` says what its plugin is for, if the plugin sleeps until a search
    finds one of its tools.
    """

    name: str
    python_name: str
    module: str
    owner: str
    kind: ToolKind
    handler: Callable[..., Awaitable[Any]] = field(repr=False, compare=False)
    description: str = ""
    summary: str = ""
    details: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns_type: str = ""
    returns: str = ""
    raises: tuple[str, ...] = ()
    example: str = ""
    examples: tuple[Example, ...] = ()
    visibility: Visibility = Visibility.VISIBLE
    sleep_brief: str = ""
    where: str = ""
    timeout_s: float = 120.0
    needs_chat: bool = True
    for_small_models: bool = True
    around: Callable[[], AbstractContextManager[None]] = field(
        default=nullcontext, repr=False, compare=False
    )
    adapters: frozenset[str] = frozenset()
