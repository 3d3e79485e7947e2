"""What tool mode is made of: names of functions, results as text, calls as people read them."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from pydantic import BaseModel

from nekro_core.agent.functions import functions_of
from nekro_core.agent.native_reply import calls_text
from nekro_core.agent.plain_text import value_text
from nekro_core.agent.send_order import SendOrder
from nekro_core.chat import ChatKey, Receipt, Text, plain_text
from nekro_core.llm.model import FunctionCall
from nekro_core.tools.names import tool_set
from nekro_core.tools.tool import Tool, ToolKind, Visibility

LIN = ChatKey.parse("fake-private_lin")


async def nothing(_ctx: Any) -> None:
    """Do nothing."""


def a_tool(name: str, module: str = "chat", **more: Any) -> Tool:
    known = {"kind": ToolKind.TOOL, "handler": nothing, "owner": f"lin.{module}"} | more
    return Tool(name=name, python_name=name, module=module, **known)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["send", "roll_dice"], ["send", "roll_dice"]),
        (["print"], ["chat__print"]),
        (["发送"], ["chat_function"]),
        (["发送", "画图"], ["chat_function", "chat_function_2"]),
        (["发送_text"], ["text"]),
        (["a" * 80, "a" * 79], ["a" * 64, "a" * 62 + "_2"]),
    ],
)
def test_names_that_the_api_takes(names: list[str], shown: list[str]) -> None:
    functions = functions_of(tool_set(map(a_tool, names)))
    assert [each.name for each in functions.offered] == shown
    assert [functions.names[name].name for name in shown] == names
    assert functions.tokens > 0


def test_only_visible_tools_are_offered() -> None:
    tools = [a_tool(each.value, visibility=each) for each in Visibility]
    assert [each.name for each in functions_of(tool_set(tools)).offered] == ["visible"]


class Colour(Enum):
    RED = "red"


class Word(str):
    __slots__ = ()


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Card:
    title: str
    _secret: str = "hidden"


class Weather(BaseModel):
    degrees: float
    at: datetime


class Handle:
    def __init__(self) -> None:
        self.name = "x"
        self._socket = object()
        self.inner = object()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (Word("as it is"), "as it is"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (Colour.RED, '"red"'),
        ({"a": [1, (2, 3)], 4: {5}}, '{"a": [1, [2, 3]], "4": [5]}'),
        ({"_kept": "你好"}, '{"_kept": "你好"}'),
        (Point(1, 2), '{"x": 1, "y": 2}'),
        (Card("ace"), '{"title": "ace"}'),
        (
            Weather(degrees=1.5, at=datetime(2026, 1, 2, tzinfo=UTC)),
            '{"degrees": 1.5, "at": "2026-01-02T00:00:00+00:00"}',
        ),
        ([b"abc"], '["<3 bytes>"]'),
        (Path("/srv/bot/data/secret.png"), '"secret.png"'),
        (Handle(), '{"name": "x", "inner": "<object>"}'),
        (nothing, '"<function>"'),
        (Card, '"<type>"'),
    ],
)
def test_results_as_text(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_results_without_end_have_one() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "..." in value_text(endless)
    assert len(json.loads(value_text(list(range(50_000))))) == 10_000


def test_calls_as_people_read_them() -> None:
    written = [
        FunctionCall(call_id="1", name="send", arguments={"text": "it's\n", "n": 2}),
        FunctionCall(call_id="2", name="x\nimport os", arguments={"a=1, b": 2}),
        FunctionCall(call_id="3", name="", problem="no\nJSON"),
    ]
    assert calls_text(written).split("\n") == [
        """send(text="it's\\n", n=2)""",
        "'x\\nimport os'('a=1, b'=2)",
        "''(...)  # no JSON",
    ]


class Way:
    """A way out that notes what leaves."""

    def __init__(self) -> None:
        self.left: list[str] = []

    async def send(self, _chat: ChatKey, segments: Any, *, run_id: str = "") -> tuple[Receipt, ...]:
        self.left.append(plain_text(segments))
        return ()


async def test_a_call_that_sends_nothing_lets_the_next_one_send_at_its_end() -> None:
    way = Way()
    order = SendOrder(way, 3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(order.of(2).send, LIN, (Text("last"),))
        tasks.start_soon(order.of(1).send, LIN, (Text("second"),))
        await anyio.wait_all_tasks_blocked()
        assert way.left == []
        order.over(0)
    assert way.left == ["second", "last"]


async def test_nobody_waits_for_ever() -> None:
    way = Way()
    order = SendOrder(way, 2, patience_s=0.01)
    await order.of(1).send(LIN, (Text("one moment"),))
    assert way.left == ["one moment"]
