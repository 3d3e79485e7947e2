"""The values that describe a tool. The tool's stub, schema and validation are made from them."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, assert_never


class ToolKind(StrEnum):
    """The effect of a call on the turn (docs/plugins.md: "Four kinds")."""

    TOOL = "tool"
    AGENT = "agent"
    BEHAVIOR = "behavior"
    MULTIMODAL_AGENT = "multimodal_agent"

    @property
    def gives_text(self) -> bool:
        """Return True if the result of a call is a text for the model, and not a value for its
        code."""
        match self:
            case ToolKind.AGENT | ToolKind.BEHAVIOR:
                return True
            case ToolKind.TOOL | ToolKind.MULTIMODAL_AGENT:
                return False
            case _:
                assert_never(self)

    @property
    def ends_run(self) -> bool:
        """Return True if a call ends the run, so that a new step begins."""
        match self:
            case ToolKind.TOOL | ToolKind.BEHAVIOR:
                return False
            case ToolKind.AGENT | ToolKind.MULTIMODAL_AGENT:
                return True
            case _:
                assert_never(self)


class Visibility(StrEnum):
    """When the model sees a tool: at once, after it searches for the tool, or never. A model never
    sees unlisted and hidden tools, with one exception: a small model is shown an unlisted tool that
    has worked examples. Code can call an unlisted tool, but not a hidden one."""

    VISIBLE = "visible"
    DEFERRED = "deferred"
    UNLISTED = "unlisted"
    HIDDEN = "hidden"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""The `Parameter.default` of a parameter without a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter that the model sees. The handler's first parameter, the context of the call, is
    not one of them.

    ``annotation`` is the Python type that arguments are converted to (`Any` if the author wrote
    none), ``type_text`` its text in the stub, ``schema`` its JSON Schema. ``convert`` converts an
    argument to that type, or raises `pydantic.ValidationError`. A ``variadic`` parameter is
    ``*args``, or ``**kwargs`` if it is also ``keyword_only``.
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
        """Return True if a call without this parameter is an error."""
        return self.default is REQUIRED and not self.variadic


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A worked example from a tool's docstring: a person's sentence, and the code that answers it.

    ``language`` is ``en``, ``zh`` or ``ja``, according to the script of ``says``.
    """

    says: str
    code: str
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One function that the AI may call.

    ``name`` is the name that the author gave to the tool, ``python_name`` the name of its function,
    ``module`` the plugin's short name, ``owner`` the plugin's key. Code can call the tool as
    ``module.python_name``, unless another plugin has a tool with the same module and function name.
    ``handler`` takes the context first, then the parameters. It runs in the block of the context
    manager that ``around`` makes. ``where`` is ``file:line``, for messages to the author.
    ``timeout_s`` is the time limit of one call.

    If ``needs_chat`` is False, the tool is also offered to callers without a chat. If ``confirms``
    is True, its result only confirms what was done, so nobody needs to read it. If
    ``for_small_models`` is False, it is not offered to small models, which cannot use the results
    of calls. The tool is offered in the chats of ``adapters``; if this is empty, in all chats. If
    ``converts_result`` is True, a result that the kind does not allow becomes text with ``str()``.
    ``own_files`` is the plugin's folder or file. If a ``raise`` or ``assert`` in these files made
    an error, the model reads the text of the error. Of other errors the model reads only the type,
    unless `public_error_text` (in ``outcome.py``) allows the text. ``sleep_brief`` is set if the
    plugin sleeps until the model searches for one of its tools; it says what the plugin is for.
    ``more_examples`` is a text with the worked examples that only small models see. It is parsed
    only for a small model.
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
    more_examples: str = field(default="", repr=False)
    visibility: Visibility = Visibility.VISIBLE
    sleep_brief: str = ""
    where: str = ""
    timeout_s: float = 120.0
    needs_chat: bool = True
    confirms: bool = False
    for_small_models: bool = True
    converts_result: bool = False
    own_files: str = ""
    around: Callable[[], AbstractContextManager[None]] = field(
        default=nullcontext, repr=False, compare=False
    )
    adapters: frozenset[str] = frozenset()
