"""Answers the calls of a replay: with recorded results, never by running a plugin."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from nekro_core.agent.turn.call_results import recorded_outcome
from nekro_core.agent.turn.run_calls import arguments_text
from nekro_core.chat import Text
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.store import ToolCall
from nekro_core.tools.arguments import ArgumentError, bind_arguments
from nekro_core.tools.discovery import is_search
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    Outcome,
    ToolCallFailed,
    ToolReturn,
)
from nekro_core.tools.tool import Tool, ToolKind

NOT_REPLAYED = "not replayed"
_SENDS = "send_"
"""The beginning of the names of functions that send messages."""

CallAnswered = Literal["recorded", "shown", "searched", "not_replayed"]
"""How a call was answered: with its recorded result; as a message that the replay only shows; by
the tool search, which has no effects; or with an error, because nothing was recorded for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """A call in a replay. ``arguments`` is JSON, as in the log of calls."""

    name: str
    arguments: str
    answered: CallAnswered


class RecordedCalls:
    """Answers calls with the results that equal calls of the original turn had. If the original
    turn made a call several times, the results are used in order, and the last result is used for
    all later calls."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self.made: list[ReplayedCall] = []
        """The calls of the replay, in order."""
        self._left = [call for call in calls if call.outcome]
        self._senders: set[str] = set()
        for call in calls:
            if (known := recorded_outcome(call.result)) and known[1]:
                self._senders.add(call.name)

    async def carry_out(
        self,
        tool: Tool,
        ctx: AgentCtx,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Answer a call. A message goes to the sender of ``ctx``, which only shows it."""
        given = arguments_text(args, dict(kwargs or {}))
        if is_search(tool):
            self._note(tool, given, "searched")
            return await call_tool(tool, ctx, args, kwargs)
        try:
            bind_arguments(tool, args, kwargs or {})
        except ArgumentError as error:
            self._note(tool, given, "not_replayed")
            return ToolCallFailed(str(error))
        recorded = self._take(tool, given)
        outcome, sent = recorded or (None, self._sends(tool))
        if sent:
            await ctx.services.outgoing.send(
                ctx.chat, (Text(_words(tool, args, kwargs or {}, given)),), run_id=ctx.run_id
            )
        if outcome is not None:
            self._note(tool, given, "recorded")
            return outcome
        if sent:
            self._note(tool, given, "shown")
            return _sent(tool)
        self._note(tool, given, "not_replayed")
        return ToolCallFailed(
            f"{tool.name}: {NOT_REPLAYED}: the recorded turn has no result for these arguments"
        )

    def _take(self, tool: Tool, given: str) -> tuple[Outcome, bool] | None:
        """Return the recorded outcome of a call with these arguments, and whether the call sent a
        message. Return None if there is no such call or its result was not recorded."""
        wanted = _normal(tool, given)
        equal = [
            each
            for each in self._left
            if each.name.rpartition(".")[2] in (tool.name.rpartition(".")[2], tool.python_name)
            and _normal(tool, each.arguments) == wanted
        ]
        if not equal:
            return None
        call = equal[0]
        if len(equal) > 1:
            self._left.remove(call)
        if call.outcome != "ok" and not call.result:
            return ToolCallFailed(call.outcome), False
        return recorded_outcome(call.result)

    def _sends(self, tool: Tool) -> bool:
        return tool.python_name.startswith(_SENDS) or tool.name in self._senders

    def _note(self, tool: Tool, arguments: str, answered: CallAnswered) -> None:
        self.made.append(ReplayedCall(name=tool.name, arguments=arguments, answered=answered))


def _normal(tool: Tool, arguments: str) -> str:
    """Return logged arguments in a form that is the same for equal calls: as JSON, sorted by the
    names of the parameters. If the log has cut the arguments, they are not valid JSON. Then they
    are returned unchanged."""
    try:
        found = json.loads(arguments)
    except ValueError:
        return arguments
    names = [each.name for each in tool.parameters if not each.keyword_only]
    if "args" not in names and isinstance(found.get("args"), list):
        found |= dict(zip(names, found.pop("args"), strict=False))
    return json.dumps(found, ensure_ascii=False, sort_keys=True)


def _words(tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any], given: str) -> str:
    """Return the text that the replay shows for a call that sends a message. This is the text among
    the call's arguments; if there is none, the whole call."""
    text = kwargs.get("text", args[0] if args else "")
    if isinstance(text, str) and text.strip() and tool.python_name == "send_channel_message":
        return text
    return f"{tool.name}({given})"


def _sent(tool: Tool) -> Outcome:
    match tool.kind:
        case ToolKind.TOOL:
            return ToolReturn("sent")
        case ToolKind.BEHAVIOR:
            return BehaviorReturn("sent")
        case ToolKind.AGENT | ToolKind.MULTIMODAL_AGENT:
            return Observation("sent")
        case _:
            assert_never(tool.kind)
