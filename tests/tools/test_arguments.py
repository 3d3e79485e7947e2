"""Arguments are bound as Python binds them, converted by the annotations, or refused."""

import inspect
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator

from nekro_core.tools.arguments import ArgumentError, BoundArguments, bind_arguments
from nekro_core.tools.stub import signature_text
from nekro_core.tools.tool import Tool
from tests.tools.make import named_tool, tool_of


class Point(BaseModel):
    x: int
    y: int = 0


async def many(
    _ctx: Any,
    text: str,
    count: int = 1,
    *,
    flag: bool = False,
    when: date | None = None,
    data: bytes = b"",
    names: list[str] | None = None,
    point: Point | None = None,
    unique: set[int] | None = None,
    mode: Literal["a", "b"] = "a",
    anything: Any = None,
) -> None:
    """Take many."""


async def rest(_ctx: Any, first: int, *others: int, **more: str) -> None:
    """Take the rest."""


async def positional(_ctx: Any, a: int, b: int = 2, /, c: int = 3) -> None:
    """Take by position."""


async def four(_ctx: Any, a: int, b: int = 0, *, c: int, d: int = 0) -> None:
    """Take four."""


NAMES = ("a", "b", "c", "d")
FOUR = tool_of(four)


class Box(BaseModel):
    points: list[Point]


async def deeper(_ctx: Any, boxes: list[Box]) -> None:
    """Take what is deeper."""


def wordily(_: Any) -> Any:
    raise ValueError("w" * 400)


async def wordy(_ctx: Any, word: Annotated[str, BeforeValidator(wordily)]) -> None:
    """Take a word."""


MANY, REST, POSITIONAL = map(tool_of, (many, rest, positional))
DEEPER, WORDY = map(tool_of, (deeper, wordy))


@pytest.mark.parametrize(
    ("tool", "args", "kwargs", "bound", "named"),
    [
        (MANY, ("a",), {}, ("a",), {}),
        (MANY, ("a", 2), {"flag": True}, ("a", 2), {"flag": True}),
        (MANY, (), {"text": "a", "count": "7"}, ("a", 7), {}),
        (MANY, (12345,), {}, ("12345",), {}),
        (MANY, ("a", 2.0), {}, ("a", 2), {}),
        (MANY, ("a",), {"when": "2026-11-22"}, ("a",), {"when": date(2026, 11, 22)}),
        (MANY, ("a",), {"data": b"\x00\xff"}, ("a",), {"data": b"\x00\xff"}),
        (MANY, ("a",), {"names": ["x", 2]}, ("a",), {"names": ["x", "2"]}),
        (MANY, ("a",), {"point": {"x": "1"}}, ("a",), {"point": Point(x=1)}),
        (MANY, ("a",), {"unique": [1, 1, 2]}, ("a",), {"unique": {1, 2}}),
        (MANY, ("a",), {"anything": {"k": [None]}}, ("a",), {"anything": {"k": [None]}}),
        (REST, (1, "2", 3), {"k": "v"}, (1, 2, 3), {"k": "v"}),
        (REST, (1,), {}, (1,), {}),
        (POSITIONAL, (1, 2), {"c": 4}, (1, 2, 4), {}),
        (POSITIONAL, (), {"b": 4, "a": 1}, (1, 4), {}),
    ],
)
def test_arguments_are_converted(
    tool: Tool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    bound: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    result = bind_arguments(tool, args, kwargs)
    assert (result.args, dict(result.kwargs)) == (bound, named)


@pytest.mark.parametrize(
    ("tool", "args", "kwargs", "told"),
    [
        (MANY, (), {}, "missing 'text'"),
        (MANY, (["a"],), {}, "argument 'text': expected str, got list ['a']"),
        (MANY, (None,), {}, "argument 'text': expected str, got None"),
        (MANY, ("a", "two"), {}, "argument 'count': expected int, got str 'two'"),
        (MANY, ("a", 1.5), {}, "argument 'count': expected int, got float 1.5"),
        (MANY, ("a", 1, 2), {}, "takes 2 arguments by position, got 3"),
        (MANY, ("a",), {"text": "b"}, "'text' was given twice"),
        (MANY, ("a",), {"cuont": 2}, "no argument 'cuont'; did you mean 'count'?"),
        (MANY, ("a",), {"_ctx": 2}, "no argument '_ctx'"),
        (MANY, ("a",), {"mode": "c"}, "argument 'mode': expected Literal['a', 'b'], got str 'c'"),
        (MANY, ("a",), {"names": "xy"}, "expected list[str] | None, got str 'xy'"),
        (MANY, ("a",), {"names": [[]]}, "at 0: Input should be a valid string"),
        (MANY, ("a",), {"point": {"y": 1}}, "at x: Field required"),
        (MANY, ("a" * 9999, "b" * 9999), {}, "expected int, got str 'bbb"),
        (REST, (1, "x"), {}, "argument 'others': expected int, got str 'x'"),
        (REST, (1,), {"k": {}}, "argument 'k': expected str, got dict {}"),
    ],
)
def test_wrong_arguments_are_refused_with_a_reason(
    tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        bind_arguments(tool, args, kwargs)
    message = str(caught.value)
    assert message.startswith(f"{tool.name}(): ")
    assert told in message
    assert "Signature: " in message
    assert len(message) < 1000


async def nothing(_ctx: Any) -> None:
    """Take nothing."""


async def one(_ctx: Any, near: int, nearer: int = 0, *, point: Point | None = None) -> None:
    """Take one."""


def as_deep(value: Any) -> Any:
    return [as_deep(each) for each in value] if isinstance(value, list) else value


async def deep(_ctx: Any, tree: Annotated[Any, BeforeValidator(as_deep)] = None) -> None:
    """Take a tree."""


NOTHING, ONE, DEEP = map(tool_of, (nothing, one, deep))
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"


@pytest.mark.parametrize(
    ("tool", "args", "kwargs", "told"),
    [
        (NOTHING, (1,), {}, "takes no arguments by position, got 1"),
        (ONE, (1, 2, 3), {}, "takes 2 arguments by position, got 3"),
        (tool_of(deep), (1, 2), {}, "takes 1 argument by position, got 2"),
        (ONE, (), {}, "missing 'near'"),
        (FOUR, (), {}, "missing 'a', 'c'"),
        (ONE, (1,), {"near": 2}, "argument 'near' was given twice, by position and by name"),
        (ONE, (1,), {"neare": 2}, "there is no argument 'neare'; did you mean 'nearer'?"),
        (ONE, (1,), {"zzz": 2}, "there is no argument 'zzz'"),
        (
            ONE,
            (None,),
            {},
            "argument 'near': expected int, got None (Input should be a valid integer)",
        ),
        (ONE, ("x",), {}, f"argument 'near': expected int, got str 'x' ({NO_INTEGER})"),
        (
            ONE,
            ("x" * 121,),
            {},
            f"argument 'near': expected int, got str '{'x' * 120}' ({NO_INTEGER})",
        ),
        (
            ONE,
            (1,),
            {"point": {"x": "q", "y": "r"}},
            (
                "argument 'point': expected Point | None, got dict {'x': 'q', 'y': 'r'} "
                f"(at x: {NO_INTEGER}; at y: {NO_INTEGER})"
            ),
        ),
        (
            MANY,
            ("a",),
            {"names": [[], [], [], []]},
            (
                "argument 'names': expected list[str] | None, got list [[], [], [], []] "
                "(at 0: Input should be a valid string; at 1: Input should be a valid string; "
                "at 2: Input should be a valid string)"
            ),
        ),
        (
            DEEPER,
            (),
            {"boxes": [{"points": [{"x": 1}, {"y": 1}]}]},
            (
                "argument 'boxes': expected list[Box], got list [{'points': [{'x': 1}, {'y': 1}]}] "
                "(at 0.points.1.x: Field required)"
            ),
        ),
        (
            WORDY,
            (7,),
            {},
            f"argument 'word': expected str, got int 7 ({('Value error, ' + 'w' * 400)[:300]})",
        ),
        (
            REST,
            (1,),
            {"k": {}},
            "argument 'k': expected str, got dict {} (Input should be a valid string)",
        ),
    ],
)
def test_the_error_lists_everything_that_is_wrong_with_a_call(
    tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        bind_arguments(tool, args, kwargs)
    assert str(caught.value) == f"{tool.name}(): {told}. Signature: {signature_text(tool)}"


def test_an_argument_that_is_nested_too_deeply_is_refused() -> None:
    tree: list[Any] = []
    for _ in range(50_000):
        tree = [tree]
    with pytest.raises(ArgumentError, match="argument 'tree' is nested too deeply"):
        bind_arguments(DEEP, (tree,))


def test_the_errors_of_a_tool_whose_name_is_no_identifier_name_its_function() -> None:
    assert named_tool("Look it up", "look", "ann.mod").name == "Look it up"
    with pytest.raises(ArgumentError, match=r"^look\(\): takes no arguments"):
        bind_arguments(named_tool("Look it up", "look", "ann.mod"), (1,))
    with pytest.raises(ArgumentError, match=r"^find\(\): takes no arguments"):
        bind_arguments(named_tool("find", "look", "ann.mod"), (1,))


def test_a_parameter_that_cannot_be_checked_accepts_any_value() -> None:
    unchecked = replace(ONE, parameters=(replace(ONE.parameters[0], convert=None),))
    assert bind_arguments(unchecked, ("x",)) == BoundArguments(("x",), {})


def test_a_call_without_arguments_is_bound() -> None:
    assert bind_arguments(NOTHING) == BoundArguments() == BoundArguments((), {})


ANY_TEXT = st.text(st.characters(exclude_categories=()))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(args=st.lists(PLAIN, max_size=3), kwargs=st.dictionaries(ANY_TEXT | st.just("text"), PLAIN))
def test_any_arguments_are_bound_or_refused(args: list[Any], kwargs: dict[str, Any]) -> None:
    refused, bound = "", None
    try:
        bound = bind_arguments(MANY, args, kwargs)
    except ArgumentError as error:
        refused = str(error)
    if bound is not None:
        inspect.signature(many).bind(None, *bound.args, **bound.kwargs)
    # Any refusal text can be printed and stored.
    assert refused.encode() or bound is not None


@given(
    args=st.lists(st.integers(), max_size=5),
    kwargs=st.dictionaries(st.sampled_from((*NAMES, "x")), st.integers()),
)
def test_exactly_the_calls_that_python_accepts_are_bound(
    args: list[int], kwargs: dict[str, int]
) -> None:
    try:
        expected = inspect.signature(four).bind(None, *args, **kwargs)
    except TypeError:
        with pytest.raises(ArgumentError):
            bind_arguments(FOUR, args, kwargs)
        return
    bound = bind_arguments(FOUR, args, kwargs)
    assert inspect.signature(four).bind(None, *bound.args, **bound.kwargs) == expected
