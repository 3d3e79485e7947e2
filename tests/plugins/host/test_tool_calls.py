"""Whatever a handler does in a call, the code gets an error message of the bot, and the bot
continues."""

import asyncio
import sys
from dataclasses import replace
from typing import Any

import anyio
import pytest
from loguru import logger
from pydantic import BaseModel, field_validator

from nekro_core.chat import ChatKeyError
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.timers.schedule import BadSchedule
from nekro_core.tools.outcome import ToolCallFailed, ToolFailure, ToolReturn
from nekro_core.tools.tool import ToolKind
from tests.plugins.world import World
from tests.tools.make import tool_of


async def who(_ctx: AgentCtx) -> list[str]:
    """Say who asks."""
    return [_ctx.from_user_id, _ctx.chat_key, _ctx.run_id, _ctx.owner]


async def test_the_handler_receives_the_identity_of_the_requester(world: World) -> None:
    outcome = await call_tool(tool_of(who), world.ctx())
    assert outcome == ToolReturn(["10001", "onebot_v11-group_30003", "run-1", "ann.mod"])


async def test_identity_cannot_be_given_as_an_argument(world: World) -> None:
    outcome = await call_tool(tool_of(who), world.ctx(), (), {"_ctx": {"from_user_id": "root"}})
    assert isinstance(outcome, ToolCallFailed)
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
        (
            BadSchedule("no time\nof that name"),
            "it failed with BadSchedule: no time of that name",
        ),
        (ChatKeyError("no chat key"), "it failed with ChatKeyError: no chat key"),
        (
            ValueError("invalid literal for int() with base 10: 'sk-1234'"),
            "it failed with ValueError; the operator finds the details in the log",
        ),
        (
            KeyError("sk-1234"),
            "it failed with KeyError; the operator finds the details in the log",
        ),
        (
            UnicodeDecodeError("utf-8", b"sk-1234", 0, 1, "invalid start byte"),
            "it failed with UnicodeDecodeError; the operator finds the details in the log",
        ),
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
async def test_an_exception_of_a_handler_becomes_a_failed_call(
    world: World, error: BaseException, message: str
) -> None:
    assert await call_tool(tool_of(raising(error)), world.ctx()) == ToolCallFailed(message)


class AuthorsOwn(ToolFailure):
    """A subclass of `ToolFailure` that the author of a plugin has written."""


class AuthorsValue(ValueError):
    """A subclass of `ValueError` that the author of a plugin has written. Its text may not be meant
    for the model."""


TOKENS = {"sk-1234": "admin"}


async def reads_a_token(_ctx: AgentCtx, of: str) -> str:
    """Look up a person with a secret of the host."""
    return TOKENS[f"sk-{of}"]


async def parses_a_setting(_ctx: AgentCtx) -> str:
    """Read a setting that contains a key."""
    return BaseSetting.model_validate({"port": "sk-1234"}).model_dump_json()


class BaseSetting(BaseModel):
    port: int


async def test_details_of_an_error_are_only_in_the_log(world: World) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, format="{message}")
    try:
        looked_up = await call_tool(tool_of(reads_a_token), world.ctx(), ("12345",))
        parsed = await call_tool(tool_of(parses_a_setting), world.ctx())
        own = await call_tool(tool_of(raising(AuthorsOwn("no such city"))), world.ctx())
        value = await call_tool(tool_of(raising(AuthorsValue("sk-1234"))), world.ctx())
    finally:
        logger.remove(sink)
    hidden = "; the operator finds the details in the log"
    assert looked_up == ToolCallFailed(f"reads_a_token failed with KeyError{hidden}")
    assert parsed == ToolCallFailed(f"parses_a_setting failed with ValidationError{hidden}")
    assert own == ToolCallFailed("it: no such city")
    assert value == ToolCallFailed(f"it failed with AuthorsValue{hidden}")
    assert "KeyError: 'sk-12345'" in lines[0]
    assert "sk-1234" in lines[1]


async def test_the_error_for_a_wrong_argument_quotes_it(world: World) -> None:
    outcome = await call_tool(tool_of(reads_a_token), world.ctx(), (["what came"],))
    assert isinstance(outcome, ToolCallFailed)
    assert outcome.message.startswith("reads_a_token(): ")
    assert "what came" in outcome.message


async def test_a_long_error_message_is_shortened(world: World) -> None:
    outcome = await call_tool(tool_of(raising(ToolFailure("x" * 10_000))), world.ctx())
    assert isinstance(outcome, ToolCallFailed)
    assert len(outcome.message) == 600


class Picky(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def check(cls, word: str) -> str:
        raise RuntimeError("token=abc")


async def test_an_error_in_a_plugins_validator_becomes_a_failed_call(world: World) -> None:
    async def it(_ctx: AgentCtx, picky: Picky) -> str:
        """Do."""
        return picky.word

    outcome = await call_tool(tool_of(it), world.ctx(), ({"word": "a"},))
    assert outcome == ToolCallFailed(
        "it failed with RuntimeError; the operator finds the details in the log"
    )


async def forever(_ctx: AgentCtx) -> str:
    """Hang."""
    await anyio.sleep_forever()
    return ""


async def test_a_handler_that_hangs_is_stopped(world: World) -> None:
    tool = replace(tool_of(forever), timeout_s=0.05)
    assert await call_tool(tool, world.ctx()) == ToolCallFailed(
        "forever took longer than 0.05 s and was stopped"
    )


async def test_cancelling_a_turn_cancels_the_call(world: World) -> None:
    with anyio.move_on_after(0.05) as stopped:
        await call_tool(tool_of(forever), world.ctx())
    assert stopped.cancelled_caught


async def test_a_result_of_the_wrong_type_becomes_a_failed_call(world: World) -> None:
    async def it(_ctx: AgentCtx) -> str:
        """Lie."""
        return 5  # type: ignore[return-value]

    outcome = await call_tool(tool_of(it, ToolKind.AGENT), world.ctx())
    assert outcome == ToolCallFailed("it returned int: a tool of kind agent must return str")


async def test_the_log_has_the_complete_error(world: World) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, format="{message}")
    try:
        await call_tool(tool_of(raising(RuntimeError("token=abc"))), world.ctx())
    finally:
        logger.remove(sink)
    assert "token=abc" in lines[0]
    assert f'File "{__file__}"' in lines[0]
    assert sys.exc_info() == (None, None, None)
