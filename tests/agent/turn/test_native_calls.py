"""Tests of the parts of tool mode: the names of functions, the text of results, and calls as people
read them."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from pydantic import BaseModel

from nekro_core.agent.prompt.functions import function_set
from nekro_core.agent.turn.native_calls import NativeCalls, SendOrder
from nekro_core.agent.turn.native_reply import calls_text
from nekro_core.agent.turn.run_calls import RunCalls
from nekro_core.agent.turn.value_text import value_text
from nekro_core.chat import ChatKey, Receipt, Text, plain_text
from nekro_core.llm.model import FunctionCall
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.tools.describe import describe
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
def test_functions_get_names_that_the_model_api_accepts(names: list[str], shown: list[str]) -> None:
    functions = function_set(tool_set(map(a_tool, names)))
    assert [each.name for each in functions.offered] == shown
    assert [functions.names[name].name for name in shown] == names
    assert functions.tokens > 0


def test_only_visible_tools_are_offered() -> None:
    tools = [a_tool(each.value, visibility=each) for each in Visibility]
    assert [each.name for each in function_set(tool_set(tools)).offered] == ["visible"]


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
def test_a_result_is_written_as_text(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_an_endless_or_huge_result_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "..." in value_text(endless)
    assert len(json.loads(value_text(list(range(90_000))))) == 50_000
    assert len(value_text([[1] * 1000] * 1000)) < 400_000


def test_a_call_is_written_in_a_form_for_people() -> None:
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


class RecordingSender:
    """An outgoing channel that records what is sent."""

    def __init__(self) -> None:
        self.left: list[str] = []

    async def send(self, _chat: ChatKey, segments: Any, *, run_id: str = "") -> tuple[Receipt, ...]:
        self.left.append(plain_text(segments))
        return ()


async def test_a_send_waits_until_the_calls_before_it_have_sent_or_ended() -> None:
    sender = RecordingSender()
    order = SendOrder(sender, 3, patience_s=600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(order.of(2).send, LIN, (Text("last"),))
        tasks.start_soon(order.of(1).send, LIN, (Text("second"),))
        for _ in range(5):  # in this time both sends begin to wait
            await anyio.lowlevel.checkpoint()
        assert sender.left == []
        order.over(0)
    assert sender.left == ["second", "last"]


async def test_a_send_waits_only_a_limited_time_for_the_call_before_it() -> None:
    sender = RecordingSender()
    order = SendOrder(sender, 2, patience_s=0.01)
    await order.of(1).send(LIN, (Text("one moment"),))
    assert sender.left == ["one moment"]


def context() -> AgentCtx:
    """A context whose only working service is the outgoing channel."""
    nothing_else: Any = None
    services = Services(
        outgoing=RecordingSender(),
        journal=nothing_else,
        media=nothing_else,
        plugin_data=nothing_else,
        speaker=nothing_else,
        data_dir=Path(),
    )
    return AgentCtx(services=services, chat=LIN, run_id="run")


@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("cancel_after", [0, 1, 2, 5, 9, 14, 50])
async def test_each_call_is_recorded_once_whenever_the_turn_is_cancelled(
    at_once: int, cancel_after: int
) -> None:
    ended: list[int] = []

    async def work(_ctx: AgentCtx, steps: int) -> str:
        """Work for some steps."""
        try:
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            return "done"
        finally:
            ended.append(steps)

    described = describe(work, ToolKind.TOOL, name="work", module="m", owner="o")
    assert described.tool is not None
    ctx, noted = context(), []

    async def note(text: str) -> None:
        noted.append(text)

    calls = RunCalls(
        tool_set([described.tool]), ctx, note=note, clock=lambda: 0.0, wall=lambda: 0.0
    )
    native = NativeCalls(calls, calls.call, lambda name: name, at_once=at_once, result_chars=1000)
    made = [FunctionCall(call_id=str(n), name="work", arguments={"steps": n}) for n in range(7)]
    answered = []

    async def carry_out() -> None:
        answered.extend(await native.carry_out(made))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(carry_out)
        for _ in range(cancel_after):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert sorted(call.position for call in calls.finished) == list(range(7))
    begun = [call for call in calls.finished if not call.outcome.startswith("not carried out")]
    assert len(begun) == len(ended)
    if answered:
        assert [each.call.call_id for each in answered] == [call.call_id for call in made]
        assert all(call.outcome == "ok" for call in calls.finished)
