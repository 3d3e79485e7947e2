"""Arguments: bound as Python binds them, converted as the annotations say, refused in words."""

import inspect
from datetime import date
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from nekro_core.tools.arguments import ArgumentError, bind_arguments
from nekro_core.tools.tool import Tool
from tests.tools.make import tool_of


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


MANY, REST, POSITIONAL = map(tool_of, (many, rest, positional))


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
def test_converted(
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
def test_refused_in_words(
    tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        bind_arguments(tool, args, kwargs)
    message = str(caught.value)
    assert message.startswith(f"{tool.name}(): ")
    assert told in message
    assert "Signature: " in message
    assert len(message) < 1000


ANY_TEXT = st.text(st.characters(exclude_categories=()))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(args=st.lists(PLAIN, max_size=3), kwargs=st.dictionaries(ANY_TEXT | st.just("text"), PLAIN))
def test_whatever_comes_it_is_bound_or_refused(args: list[Any], kwargs: dict[str, Any]) -> None:
    refused, bound = "", None
    try:
        bound = bind_arguments(MANY, args, kwargs)
    except ArgumentError as error:
        refused = str(error)
    if bound is not None:
        inspect.signature(many).bind(None, *bound.args, **bound.kwargs)
    # What is said can be printed and stored, whatever came.
    assert refused.encode() or bound is not None


async def four(_ctx: Any, a: int, b: int = 0, *, c: int, d: int = 0) -> None:
    """Take four."""


NAMES = ("a", "b", "c", "d")
FOUR = tool_of(four)


@given(
    args=st.lists(st.integers(), max_size=5),
    kwargs=st.dictionaries(st.sampled_from((*NAMES, "x")), st.integers()),
)
def test_binds_exactly_what_python_binds(args: list[int], kwargs: dict[str, int]) -> None:
    try:
        expected = inspect.signature(four).bind(None, *args, **kwargs)
    except TypeError:
        with pytest.raises(ArgumentError):
            bind_arguments(FOUR, args, kwargs)
        return
    bound = bind_arguments(FOUR, args, kwargs)
    assert inspect.signature(four).bind(None, *bound.args, **bound.kwargs) == expected
