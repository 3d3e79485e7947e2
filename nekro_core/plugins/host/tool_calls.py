"""Runs one call of a tool: validates its arguments, limits its time, checks its result, and makes
an error message for every failure."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import anyio
from loguru import logger

from nekro_core.plugins.authoring.call import call_scope
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.faults import LoopBlocked, is_cancellation
from nekro_core.plugins.authoring.tool_uses import CallNote
from nekro_core.plugins.host.raised_text import raised_text
from nekro_core.system.sync_bridge import run_bridged
from nekro_core.tools.arguments import ArgumentError, bind_arguments
from nekro_core.tools.outcome import (
    Outcome,
    ToolCallFailed,
    ToolFailure,
    outcome_of,
    public_error_text,
)
from nekro_core.tools.tool import Tool

_MAX_MESSAGE = 600


async def call_tool(
    tool: Tool, ctx: AgentCtx, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Outcome:
    """Call a tool's handler with arguments from a box.

    Errors of the handler are not raised. If an argument or the result is wrong, if the handler
    raises an exception, or if the call takes longer than ``tool.timeout_s``, a `ToolCallFailed` is
    returned. Its message has no details of the host; the log has them. A tool that is switched off
    in the chat is not called; a `ToolCallFailed` says so.
    """
    if not ctx.services.tool_choices.of(ctx.chat).allows(tool):
        # The operator may have switched the tool off after the model had read about it.
        return ToolCallFailed(f"{tool.name} is switched off in this chat")
    uses = ctx.services.uses
    with uses.call(tool) if uses is not None else nullcontext(CallNote()) as note:
        outcome = await _carried_out(tool, ctx, args, kwargs or {}, note)
        if isinstance(outcome, ToolCallFailed):
            note.text = outcome.message
    return outcome


async def _carried_out(
    tool: Tool, ctx: AgentCtx, args: Sequence[Any], kwargs: Mapping[str, Any], note: CallNote
) -> Outcome:
    try:
        bound = bind_arguments(tool, args, kwargs)
    except ArgumentError as error:
        return ToolCallFailed(str(error))
    except Exception as error:  # noqa: BLE001 - a plugin's own types may raise anything
        note.error = error
        return _broken(tool, error)
    try:
        with anyio.move_on_after(tool.timeout_s), tool.around():
            own = ctx.called_for(tool.owner, given=(args, kwargs), by_code=True)
            with call_scope(own):
                value: Any = await run_bridged(tool.handler(own, *bound.args, **bound.kwargs))
                outcome = await own.shown(outcome_of(tool, value))
            await own.fs.hand_in()
            return outcome
    except ToolFailure as error:
        return ToolCallFailed(_bounded(f"{tool.name}: {error}"))
    except BaseException as error:
        if is_cancellation(error):
            raise
        note.error = error
        return _broken(tool, error)
    logger.warning("{} ({}) took longer than {} s", tool.name, tool.where, tool.timeout_s)
    return ToolCallFailed(f"{tool.name} took longer than {tool.timeout_s:g} s and was stopped")


def _broken(tool: Tool, error: BaseException) -> ToolCallFailed:
    logger.opt(exception=error).error("{} ({}) failed", tool.name, tool.where)
    text = " ".join(_shown(tool, error).split())
    told = f": {text}" if text else "; the operator finds the details in the log"
    return ToolCallFailed(_bounded(f"{tool.name} failed with {type(error).__name__}{told}"))


def _shown(tool: Tool, error: BaseException) -> str:
    """Get the part of an error's text that code in a box or a model may read."""
    if isinstance(error, LoopBlocked):
        return str(error)
    try:
        return public_error_text(error) or raised_text(error, tool.own_files)
    except Exception:  # noqa: BLE001 - the ``__str__`` of a plugin's own class
        return ""


def _bounded(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 3]}..."
