"""A function becomes a tool. The tests check what is read from it, and which errors and warnings it
causes."""

import ast
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Dict, List, Literal, Optional  # noqa: UP035

import pytest
from pydantic import BaseModel, Field

from nekro_core.tools.describe import describe
from nekro_core.tools.problem import ProblemSeverity
from nekro_core.tools.stub import doc, signature_text, stub
from nekro_core.tools.tool import ToolKind
from tests.tools.make import tool_of

if TYPE_CHECKING:
    from decimal import Decimal


class AgentCtx:
    """Stands for the real class, which belongs to a higher floor and cannot be imported here."""


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Size:
    width: int
    height: int


async def google(_ctx: AgentCtx, text: str, speed: float = 1.0) -> str:
    """Say it.

    Slowly where asked.

    Args:
        text (str): What to say,
            in any language.
        speed: How fast.

    Returns:
        str: What became of it.

    Raises:
        ToolError: Where it is too long.

    Example:
        ```python
        # User: say hello
        google("hello")

        # User: 你好
        google("你好", speed=0.8)
        ```
    """
    return text


async def numpy(_ctx: AgentCtx, text: str, speed: float = 1.0) -> str:
    """Say it.

    Slowly where asked.

    Parameters
    ----------
    text : str
        What to say,
        in any language.
    speed : float
        How fast.

    Returns
    -------
    str
        What became of it.

    Raises
    ------
    ToolError
        Where it is too long.

    Examples
    --------
    # User: say hello
    google("hello")

    # User: 你好
    google("你好", speed=0.8)
    """
    return text


@pytest.mark.parametrize("function", [google, numpy])
def test_both_docstring_styles_give_the_same_tool(function: Callable[..., Awaitable[Any]]) -> None:
    described = describe(function, ToolKind.TOOL, name="say", module="mod", owner="ann.mod")
    tool = described.tool
    assert tool is not None
    assert described.problems == ()
    assert (tool.summary, tool.details) == ("Say it.", "Slowly where asked.")
    assert [each.name for each in tool.parameters] == ["text", "speed"]
    assert [each.description for each in tool.parameters] == [
        "What to say,\nin any language.",
        "How fast.",
    ]
    assert tool.returns.endswith("What became of it.")
    assert tool.raises == ("ToolError: Where it is too long.",)
    assert [(each.says, each.language) for each in tool.examples] == [
        ("say hello", "en"),
        ("你好", "zh"),
    ]
    assert tool.examples[1].code == 'google("你好", speed=0.8)'
    assert tool.where.rpartition(":")[0] == __file__


def test_the_model_is_never_shown_the_context_parameter() -> None:
    assert "ctx" not in stub(tool_of(google))


async def everything(
    _ctx: AgentCtx,
    a: int,
    b: List[Dict[str, Any]],  # noqa: UP006
    c: Optional[str] = None,  # noqa: UP045
    d: Literal["x", "y"] = "x",
    e: str = None,  # type: ignore[assignment]  # noqa: RUF013
    *rest: int,
    f: Annotated[int, Field(ge=1)] = 1,
    g: Colour = Colour.RED,
    h: Point | None = None,
    i: object = object(),
    **more: str,
) -> tuple[int, ...]: ...


def test_the_signature_is_written_as_an_author_would_write_it() -> None:
    assert signature_text(tool_of(everything)) == (
        "everything(a: int, b: List[Dict[str, Any]], c: str | None = None, "
        "d: Literal['x', 'y'] = 'x', e: str | None = None, *rest: int, f: int = 1, "
        "g: Colour = 'red', h: Point | None = None, i: object = ..., **more: str) "
        "-> tuple[int, ...]"
    )


def test_keyword_only_parameters_are_written_after_a_star() -> None:
    async def function(_ctx: AgentCtx, a: int, *, b: int) -> None: ...

    assert signature_text(tool_of(function)) == "function(a: int, *, b: int) -> None"


async def shapes(_ctx: AgentCtx, point: Point, size: Size) -> None:
    """Measure.

    Args:
        point: Where.
    """


def test_a_class_of_the_plugin_is_described_as_a_dict() -> None:
    point, size = tool_of(shapes).parameters
    assert point.description == "Where.\nA dict with x: integer, y?: integer."
    assert size.description == "A dict with width: integer, height: integer."


NASTY = [
    '"""',
    'ends with a quote"',
    "back\\slash \\",
    'both \\"""',
    "tab\tand \x0c feed",
    "\u2028 separator",
    "{braces} %s",
    "",
]


@pytest.mark.parametrize("text", NASTY)
def test_every_stub_is_valid_python_and_contains_the_docstring(text: str) -> None:
    async def function(_ctx: AgentCtx, value: str = text) -> str: ...

    function.__doc__ = f"Sum {text}\n\nMore {text}."
    tool = tool_of(function)
    tree = ast.parse(stub(tool)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    written = ast.get_docstring(tree)
    assert written is not None
    assert "".join(written.split()) == "".join(doc(tool).split())


def not_async(_ctx: AgentCtx) -> str: ...


async def no_context(text: str) -> str: ...


async def nothing_at_all() -> str: ...


async def context_behind(text: str, _ctx: AgentCtx) -> str: ...


async def keyword_context(*, _ctx: AgentCtx) -> str: ...


class WithCall:
    def __call__(self, _ctx: AgentCtx) -> str: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (not_async, "is not async"),
        (no_context, "its first parameter is 'text'"),
        (nothing_at_all, "it has no parameters"),
        (context_behind, "its first parameter is 'text'"),
        (keyword_context, "does not take the context"),
        (WithCall(), "is not async"),
        (lambda _ctx: None, "is not async"),
        ("text", "is no function"),
    ],
)
def test_a_refused_function_is_reported_with_place_and_remedy(function: Any, reason: str) -> None:
    described = describe(function, ToolKind.TOOL, name="it", module="mod", owner="ann.mod")
    assert described.tool is None
    (problem,) = described.problems
    assert problem.severity is ProblemSeverity.ERROR
    assert reason in problem.message
    assert problem.where
    assert problem.remedy.startswith("write async def")


class Album(BaseModel):
    pictures: list[Path] = []


@pytest.mark.parametrize(
    "annotation", [Path, Path | None, str | Path, dict[str, list[Path]], Album]
)
def test_a_function_with_a_path_of_the_host_as_a_parameter_is_refused(annotation: Any) -> None:
    async def show(_ctx: AgentCtx, picture: annotation) -> str:  # type: ignore[valid-type]
        """Show a picture."""
        return ""

    described = describe(show, ToolKind.TOOL, name="show", module="mod", owner="ann.mod")
    assert described.tool is None
    (problem,) = described.problems
    assert problem.severity is ProblemSeverity.ERROR
    assert "'picture' would be a path of the host" in problem.message
    assert "picture: str" in problem.remedy


def traced(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return wrapper


class Methods:
    async def method(self, _ctx: AgentCtx, text: str) -> str:
        """Do."""
        return text


class Called:
    async def __call__(self, _ctx: AgentCtx, text: str) -> str:
        """Do."""
        return text


async def other_name(context: AgentCtx, text: str) -> str:
    """Do."""
    return text


async def two(first: str, _ctx: AgentCtx, text: str) -> str:
    """Do."""
    return first + text


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (traced(google), "google"),
        (Methods().method, "method"),
        (other_name, "other_name"),
        (partial(two, "x"), "two"),
        (Called(), "Called"),
    ],
)
def test_decorated_functions_methods_and_callable_objects_are_accepted(
    function: Any, name: str
) -> None:
    described = describe(function, ToolKind.TOOL, name="it", module="mod", owner="ann.mod")
    assert described.tool is not None
    assert described.tool.python_name == name
    assert described.tool.parameters[0].name == "text"


async def bare(_ctx, text):
    return text


async def unresolved(_ctx: AgentCtx, amount: "Decimal", text: "str") -> "str":
    """Do."""
    return text


async def uncheckable(_ctx: AgentCtx, value: "Generic[int]") -> str:  # noqa: F821
    """Do."""
    return ""


async def no_type(_ctx: AgentCtx, value: 5 = None) -> str:  # type: ignore[valid-type]
    """Do."""
    return ""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (bare, ["no annotation for text", "_ctx has no annotation", "no return", "no docstring"]),
        (unresolved, ["annotation of 'amount' cannot be resolved"]),
        (no_type, ["'value' cannot be checked"]),
        (uncheckable, ["annotation of 'value' cannot be resolved"]),
    ],
)
def test_functions_without_usable_annotations_are_accepted_with_warnings(
    function: Any, told: list[str]
) -> None:
    described = describe(function, ToolKind.TOOL, name="it", module="mod", owner="ann.mod")
    assert described.tool is not None
    assert len(described.problems) == len(told)
    for problem, text in zip(described.problems, told, strict=True):
        assert problem.severity is ProblemSeverity.WARNING
        assert text in problem.message
        assert problem.where.startswith(__file__)
        assert problem.remedy
    if function is unresolved:
        assert described.tool.parameters[1].annotation is str
