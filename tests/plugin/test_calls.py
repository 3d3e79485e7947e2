"""One call: whatever a handler does, the code gets a sentence of ours and the bot lives on."""

import asyncio
import sys
from dataclasses import replace
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, field_validator

from nekro_core.plugin import AgentCtx, call
from nekro_core.tools.outcome import Failed, Returned, ToolFailure
from nekro_core.tools.tool import ToolKind
from tests.plugin.world import World
from tests.tools.make import tool_of


async def who(_ctx: AgentCtx) -> list[str]:
    """Say who asks."""
    return [_ctx.from_user_id, _ctx.from_chat_key, _ctx.run_id, _ctx.owner]


async def test_the_handler_knows_who_asks(world: World) -> None:
    outcome = await call(tool_of(who), world.ctx())
    assert outcome == Returned(["10001", "onebot_v11-group_30003", "run-1", "ann.mod"])


async def test_identity_cannot_be_given_as_an_argument(world: World) -> None:
    outcome = await call(tool_of(who), world.ctx(), (), {"_ctx": {"from_user_id": "root"}})
    assert isinstance(outcome, Failed)
    assert "no argument '_ctx'" in outcome.message


def raising(error: BaseException) -> Any:
    async def it(_ctx: AgentCtx) -> str:
        """Fail."""
        raise error

    return it


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ToolFailure("there is no such card"), "it: there is no such card"),
        (ValueError("no city\nof that name"), "it failed with ValueError: no city of that name"),
        (KeyError("paris"), "it failed with KeyError: 'paris'"),
        (
            FileNotFoundError(2, "No such file", "/srv/bot/secret.key"),
            "it failed with FileNotFoundError; the operator finds the details in the log",
        ),
        (
            RuntimeError("token=abc"),
            "it failed with RuntimeError; the operator finds the details in the log",
        ),
        (SystemExit(1), "it failed with SystemExit; the operator finds the details in the log"),
        (
            KeyboardInterrupt(),
            "it failed with KeyboardInterrupt; the operator finds the details in the log",
        ),
        (
            GeneratorExit(),
            "it failed with GeneratorExit; the operator finds the details in the log",
        ),
        (
            asyncio.CancelledError(),
            "it failed with CancelledError; the operator finds the details in the log",
        ),
        (
            TimeoutError("db://user:password@host"),
            "it failed with TimeoutError; the operator finds the details in the log",
        ),
    ],
)
async def test_what_a_handler_raises(world: World, error: BaseException, message: str) -> None:
    assert await call(tool_of(raising(error)), world.ctx()) == Failed(message)


async def test_a_long_message_is_cut(world: World) -> None:
    outcome = await call(tool_of(raising(ValueError("x" * 10_000))), world.ctx())
    assert isinstance(outcome, Failed)
    assert len(outcome.message) == 600


class Picky(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def check(cls, word: str) -> str:
        raise RuntimeError("token=abc")


async def test_a_type_of_the_plugin_that_fails_itself(world: World) -> None:
    async def it(_ctx: AgentCtx, picky: Picky) -> str:
        """Do."""
        return picky.word

    outcome = await call(tool_of(it), world.ctx(), ({"word": "a"},))
    assert outcome == Failed(
        "it failed with RuntimeError; the operator finds the details in the log"
    )


async def forever(_ctx: AgentCtx) -> str:
    """Hang."""
    await anyio.sleep_forever()
    return ""


async def test_a_handler_that_hangs_is_stopped(world: World) -> None:
    tool = replace(tool_of(forever), timeout_s=0.05)
    assert await call(tool, world.ctx()) == Failed(
        "forever took longer than 0.05 s and was stopped"
    )


async def test_a_turn_that_is_stopped_stops_the_call(world: World) -> None:
    with anyio.move_on_after(0.05) as stopped:
        await call(tool_of(forever), world.ctx())
    assert stopped.cancelled_caught


async def test_the_wrong_type(world: World) -> None:
    async def it(_ctx: AgentCtx) -> str:
        """Lie."""
        return 5  # type: ignore[return-value]

    outcome = await call(tool_of(it, ToolKind.AGENT), world.ctx())
    assert outcome == Failed("it returned int: a tool of kind agent must return str")


async def test_the_log_has_the_whole_story(world: World) -> None:
    lines: list[str] = []
    from loguru import logger  # noqa: PLC0415 - only here a sink is needed

    sink = logger.add(lines.append, format="{message}")
    try:
        await call(tool_of(raising(RuntimeError("token=abc"))), world.ctx())
    finally:
        logger.remove(sink)
    assert "token=abc" in lines[0]
    assert f'File "{__file__}"' in lines[0]
    assert sys.exc_info() == (None, None, None)
