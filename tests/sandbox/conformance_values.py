"""Tests of values that can pass between code and tools, and of values that cannot.

Part of `tests.sandbox.conformance`.
"""

import dataclasses
import datetime as dt
import enum
import pathlib
import uuid
from typing import NamedTuple

import anyio
import pytest

from nekro_core.sandbox.box import (
    Box,
    BoxFileError,
    CallReturn,
    RunLimits,
    StopReason,
)
from tests.sandbox.run_code import Tools, play


class Mood(enum.Enum):
    GOOD = "good"


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    name: str
    mood: Mood
    born: dt.date


class Loose:
    def __init__(self) -> None:
        self.size = 3
        self.me = self


class Point(NamedTuple):
    x: int
    y: int


class ValueConformance:
    """Needs the fixtures ``box`` (new for each test) and ``used_box`` (shared)."""

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            -(2**63),
            2**64 - 1,
            0.1,
            "",
            "text 文字 🎲\u202e\u200b",
            "x" * 10_000,
            b"",
            bytes(range(256)) * 100,
            [],
            [1, [2, [b"deep"]]],
            {"a": {"b": [None, b"c", "long" * 2000]}},
            {"$b": [0, 1]},
            {"$d": 1, "e": 2},
            {"$": {"$t": "x"}},
        ],
        ids=lambda value: repr(value)[:20],
    )
    async def test_plain_values_pass_both_ways_unchanged(
        self, used_box: Box, value: object
    ) -> None:
        tools = Tools({"give": value, "take": None})
        result = await play(used_box, "take(give(), key=give())", tools=tools)
        assert result.stop is StopReason.FINISHED, result.error
        assert tools.calls[-1].args == (value,)
        assert tools.calls[-1].kwargs == {"key": value}

    async def test_other_python_values_become_plain_data(self, box: Box) -> None:
        code = """
            import datetime, decimal, enum, pathlib, dataclasses, io, collections
            class Colour(enum.Enum):
                RED = "red"
            @dataclasses.dataclass
            class Card:
                title: str
                at: datetime.date
            take((1, 2), {3}, bytearray(b"x"), pathlib.Path("a/b"), Colour.RED)
            take(decimal.Decimal("1.5"))
            take(Card("t", datetime.date(2026, 1, 2)), {1: "one"}, io.BytesIO(b"p"), "\\ud800")
        """
        tools = Tools({"take": None})
        result = await play(box, code, tools=tools)
        assert result.stop is StopReason.FINISHED, result.error
        assert tools.asked == [
            ([1, 2], [3], b"x", "a/b", "red"),
            (1.5,),
            ({"title": "t", "at": "2026-01-02"}, {"1": "one"}, b"p", "?"),
        ]

    @pytest.mark.parametrize(
        ("argument", "words"),
        [
            ("object()", "TypeError: object cannot be handed to a tool"),
            ("float('nan')", "ValueError: nan cannot be handed to a tool"),
            ("10**30", "OverflowError: a whole number beyond 64 bits"),
            ("{(1, 2): 3}", "TypeError: a key of a dict"),
            ("lambda: 1", "TypeError: function cannot be handed to a tool"),
            ("deep", "ValueError: what is handed to a tool may be nested"),
            ("loop", "ValueError: what is handed to a tool may be nested"),
            ("b'x' * 2_000_000", "ValueError: the arguments of take() are 2000"),
            ("['a'] * 500_000", "ValueError: the arguments of take() are 2000"),
        ],
    )
    async def test_an_argument_that_cannot_be_passed_raises_an_error_at_the_call(
        self, used_box: Box, argument: str, words: str
    ) -> None:
        shapes = "deep = []\nfor _ in range(200): deep = [deep]\nloop = []\nloop.append(loop)"
        code = f"{shapes}\ntake({argument})"
        tools = Tools({"take": None})
        result = await play(used_box, code, RunLimits(value_bytes=1_000_000), tools)
        assert result.stop is StopReason.ERROR
        assert words in result.error
        assert not tools.calls

    @pytest.mark.parametrize(
        ("value", "expression", "expected"),
        [
            (dt.date(2026, 1, 2), "v.year", "2026"),
            (uuid.UUID(int=5), "v.int", "5"),
            (pathlib.PurePosixPath("a/b"), "v.name", "b"),
            ({1, 2}, "sorted(v)", "[1, 2]"),
            (Mood.GOOD, "v", "good"),
            (StopReason.FINISHED, "v.upper()", "FINISHED"),
            (Point(1, 2), "v", "Point(x=1, y=2)"),
            (
                Member("Lin", Mood.GOOD, dt.date(2000, 1, 2)),
                "v.name, v['mood'], v.born.year",
                "Lin good 2000",
            ),
            ([Member("A", Mood.GOOD, dt.date.min)], "dict(v[0])['name']", "A"),
            (Loose(), "v.me is v and v.size", "3"),
            (ValueError("x", 1), "v.args", "('x', 1)"),
            (Member, "type(v).__name__", "Member"),
            (
                BoxFileError("not_found", "gone"),
                "v",
                "BoxFileError(args=('gone',), code='not_found')",
            ),
        ],
        ids=lambda value: repr(value)[:25],
    )
    async def test_any_value_reaches_the_code(
        self, used_box: Box, value: object, expression: str, expected: str
    ) -> None:
        result = await play(used_box, f"v = give()\nprint({expression})", give=CallReturn(value))
        assert (result.output, result.error) == (f"{expected}\n", "")

    async def test_a_value_that_cannot_be_pickled_raises_a_tool_error(self, box: Box) -> None:
        result = await play(box, "give()", give=CallReturn(anyio.Lock))
        assert result.stop is StopReason.FINISHED
        result = await play(box, "give()", give=CallReturn(n for n in ()))
        assert "ToolError: give gave a value that cannot reach the code" in result.error

    async def test_a_value_that_is_too_large_raises_a_tool_error(self, box: Box) -> None:
        result = await play(box, "give()", RunLimits(value_bytes=1000), give=b"x" * 2000)
        assert "at most 1000 reach the code" in result.error
