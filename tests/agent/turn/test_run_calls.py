"""The tests check what is stored about the calls of a run."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from nekro_core.agent.turn.run_calls import RunCalls
from nekro_core.chat import ChatKey, DeliveryState, Receipt, Segment, Text
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.sandbox.box import Answer, CallFailure, CallReturn, GuestCall
from nekro_core.tools.describe import describe
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.tool import ToolKind
from tests.agent.turn.test_native_calls import context

LARGE = "a" * 1_000_000


@pytest.mark.parametrize(
    ("args", "kwargs", "kept"),
    [
        ((1, "two"), {"three": None}, '{"args": [1, "two"], "three": null}'),
        ((b"\0" * 1_000_000,), {}, '{"args": ["<bytes of 1000000 bytes>"]}'),
        ((LARGE,), {}, None),
        (([[LARGE, {"deep": [LARGE] * 9}]],), {}, None),
        ((), {LARGE: LARGE}, None),
        (([0] * 1_000_000,), {}, None),
        (({str(number): number for number in range(100_000)},), {}, None),
        (([["a" * 1999] * 100] * 100,), {}, None),
    ],
)
async def test_long_arguments_are_recorded_shortened(
    args: tuple[Any, ...], kwargs: dict[str, Any], kept: str | None
) -> None:
    """Code in the box chooses the arguments. Without a limit, 1,000 calls of 16 MB took 17 GB of
    the host's memory."""
    calls = RunCalls(ToolSet(()), context(), note=None, clock=float, wall=float)  # type: ignore[arg-type]
    result = await calls.call(GuestCall(name="nothing", args=args, kwargs=kwargs))
    assert isinstance(calls.code_answer("nothing", result), CallFailure)
    (made,) = calls.finished
    assert len(made.arguments) < 16_384
    if kept is not None:
        assert made.arguments == kept
        json.loads(made.arguments)


class Sent:
    """An outgoing channel that sends every message successfully."""

    async def send(
        self, _chat: ChatKey, _segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        return (Receipt(state=DeliveryState.SENT),)


async def test_a_message_that_another_call_sends_at_the_same_time_is_not_counted() -> None:
    """If a call sends a message, the model does not see the value of the call, and earlier output
    opens no further step. Here only `say` sends."""
    go_on = anyio.Event()

    async def look(_ctx: AgentCtx) -> str:
        """Look something up."""
        await go_on.wait()
        return "found"

    async def say(_ctx: AgentCtx) -> None:
        """Say something."""
        await _ctx.send((Text("one moment"),))

    tools = []
    for handler, name in ((look, "look"), (say, "say")):
        tool = describe(handler, ToolKind.TOOL, name=name, module="m", owner="o").tool
        assert tool is not None
        tools.append(tool)
    ctx = context()
    ctx = replace(ctx, services=replace(ctx.services, outgoing=Sent()))
    calls = RunCalls(tool_set(tools), ctx, note=None, clock=float, wall=float)  # type: ignore[arg-type]
    answers: dict[str, Answer] = {}

    async def call(name: str) -> None:
        result = await calls.call(GuestCall(name=name, args=(), kwargs={}))
        answers[name] = calls.code_answer(name, result)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, "look")
        await anyio.wait_all_tasks_blocked()
        await call("say")
        go_on.set()
    assert answers == {"look": CallReturn("found"), "say": CallReturn(None, checkpoint=True)}
