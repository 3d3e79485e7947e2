"""Carries out the calls of one run and logs them."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from nekro_core.agent.turn.call_results import result_text
from nekro_core.chat import ChatKey, Receipt, Segment
from nekro_core.llm.model import AudioPart, ImagePart, Part, TextPart
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.sandbox.box import Answer, CallFailure, CallReturn, EndRun, GuestCall, GuestFunction
from nekro_core.store import ToolCall
from nekro_core.system.telemetry.spans import AttributeValue, TracedContent
from nekro_core.system.telemetry.telemetry import Telemetry
from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent
from nekro_core.tools.discovery import is_search
from nekro_core.tools.media import indexed_text, media_content
from nekro_core.tools.names import ToolSet
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    Outcome,
    RichObservation,
    ToolCallFailed,
    ToolReturn,
    ToolReturnMedia,
)
from nekro_core.tools.stub import doc, parameters_text
from nekro_core.tools.tool import Tool, Visibility

_ARGUMENT_CHARS = 2000
"""Maximum number of characters of one text in the logged arguments of a call."""
_ARGUMENT_ITEMS = 100
"""Maximum number of items of one list or dict in the logged arguments of a call."""
_ARGUMENTS_CHARS = 16_000
"""Maximum number of characters of all logged arguments of a call. Without this limit, the arguments
of a thousand calls of 16 MB each would stay in memory until the run ends."""

_SAVED_WITHIN_S = 0.02
"""A call is written to the store at most this many seconds after it begins, and again after it
ends, so that the next process knows about it. All calls within these 20 ms are written together,
because a loop can make a thousand calls in a moment."""
IN_PROGRESS = ""
"""`ToolCall.outcome` of a call that has not ended yet."""
_OK = "ok"
"""`ToolCall.outcome` of a call that did not fail."""

Note = Callable[[str], Awaitable[object]]
"""A function that adds a system line to the chat's history."""
ToolCaller = Callable[[Tool, AgentCtx, Sequence[Any], Mapping[str, Any] | None], Awaitable[Outcome]]
"""A function that carries out a call: `call_tool`. In a replay it returns recorded results."""
SaveCalls = Callable[[Sequence[ToolCall]], object]
"""A function that writes calls to the store. It does not wait: when it returns, the writes are in
the store's queue."""


def _save_nowhere(_: Sequence[ToolCall]) -> None:
    return None


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call. ``sent`` says whether the call sent a message or may have sent one."""

    outcome: Outcome
    sent: bool = False


class CallSender:
    """The `MessageSender` of one call. It notes whether this call sent a message, since other calls
    may send messages at the same time."""

    def __init__(self, outgoing: MessageSender) -> None:
        self._outgoing = outgoing
        self.sent = False
        """Whether the call sent a message or may have sent one."""

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """See `MessageSender.send`."""
        receipts = await self._outgoing.send(chat_key, segments, run_id=run_id)
        self.sent = self.sent or any(receipt.state.left for receipt in receipts)
        return receipts


class RunCalls:
    """Carries out a run's calls and logs them. The person and the chat come from ``ctx``, never
    from arguments. ``save`` writes the log to the store; without ``save``, the owner of this object
    must write the calls in `finished` to the store. ``carry_out`` runs the tools."""

    def __init__(
        self,
        tools: ToolSet,
        ctx: AgentCtx,
        *,
        note: Note,
        clock: Callable[[], float],
        wall: Callable[[], float],
        save: SaveCalls = _save_nowhere,
        carry_out: ToolCaller = call_tool,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.ctx = ctx
        """The context of all calls. Each call gets a copy with a separate sender."""
        self.finished: list[ToolCall] = []
        """The log: calls that have ended, and calls that were skipped."""
        self.observed: list[tuple[str, tuple[Part, ...]]] = []
        """The results that the model must see next: each function's name, and its returned
        content."""
        self.recorded: list[str] = []
        """The results of tools of the kind `ToolKind.BEHAVIOR`, which were noted in the chat's
        history."""
        self.unread = ""
        """The result of a tool search that the model has not seen yet. It is emptied when the code
        calls a deferred tool, because the model then does not need the result."""
        self._answered = False
        self._tools = tools
        self._note = note
        self._clock = clock
        self._wall = wall
        self._save = save
        self._carry_out = carry_out
        self._telemetry = telemetry or Telemetry()
        # Remember the span here: the calls are carried out in the task that reads the box's pipe,
        # where the turn's span is not the current one.
        self.traced_in = self._telemetry.tracer.current()
        """The span to which the calls belong."""
        self._saved = 0
        self._save_timer: asyncio.TimerHandle | None = None
        self._positions = itertools.count()
        self._in_progress: dict[int, Callable[[], ToolCall]] = {}

    async def call(
        self,
        call: GuestCall,
        *,
        position: int | None = None,
        outgoing: MessageSender | None = None,
    ) -> CallResult:
        """Carry out one call and log it, even if it fails. The result of a tool of the kind
        `ToolKind.BEHAVIOR` is also noted in the chat's history. ``position`` is the number of the
        call within its reply, from 0; None gives it the next number of this run. If ``outgoing`` is
        given, messages are sent through it."""
        tracer = self._telemetry.tracer
        if not tracer.enabled:
            return await self._call(call, position, outgoing)
        # The model chose the name. If no tool has this name, it can be any text, so the trace does
        # not show it.
        name = call.name if self._tools.resolve(call.name) is not None else "unknown"
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
        }
        if tracer.shows(TracedContent.TOOLS):
            attributes["gen_ai.tool.call.arguments"] = arguments_text(call.args, call.kwargs)
        with tracer.work(f"execute_tool {name}", attributes, parent=self.traced_in) as span:
            result = await self._call(call, position, outgoing)
            if isinstance(result.outcome, ToolCallFailed):
                span.fail("tool_failed")
            return result

    async def _call(
        self, call: GuestCall, position: int | None, outgoing: MessageSender | None
    ) -> CallResult:
        """Carry out one call; see `call`."""
        began, started = self._clock(), self._wall()
        outcome_text = "cut off: the run ended before the tool did"
        index = next(self._positions) if position is None else position

        recorded = ""

        def logged(outcome: str, seconds: float) -> ToolCall:
            return ToolCall(
                position=index,
                name=call.name,
                arguments=arguments_text(call.args, call.kwargs),
                outcome=outcome,
                started=started,
                seconds=seconds,
                result=recorded,
            )

        self._in_progress[index] = lambda: logged(IN_PROGRESS, 0.0)
        self._save_soon()
        try:
            tool = self._tools.resolve(call.name)
            if tool is None:
                outcome_text = self._tools.why_unknown(call.name)
                return CallResult(ToolCallFailed(outcome_text))
            services = self.ctx.services
            sender = CallSender(outgoing or services.outgoing)
            ctx = replace(self.ctx, services=replace(services, outgoing=sender))
            outcome = await self._carry_out(tool, ctx, call.args, call.kwargs)
            recorded = result_text(outcome, sent=sender.sent)
            outcome_text = _OK
            match outcome:
                case BehaviorReturn(text):
                    self.recorded.append(text)
                    await self._note(text)
                case ToolCallFailed(message):
                    outcome_text = message
                case ToolReturn() | ToolReturnMedia() | Observation() | RichObservation():
                    pass
                case _:
                    assert_never(outcome)
            if is_search(tool) and isinstance(outcome, ToolReturn):
                self.unread = str(outcome.value)
            elif tool.visibility is Visibility.DEFERRED:
                self.unread = ""
            return CallResult(outcome, sent=sender.sent)
        finally:
            self._in_progress.pop(index, None)
            self.finished.append(logged(outcome_text, self._clock() - began))
            self._telemetry.metrics.tool_calls.add("ok" if outcome_text == _OK else "failed")
            self._save_soon()

    def code_answer(self, name: str, result: CallResult) -> Answer:
        """Return the answer for the code that called this function. If the call sent a message, the
        answer is a checkpoint: output that the code printed before the checkpoint leads to no
        further step."""
        self._answered = self._answered or result.sent
        match result.outcome:
            case ToolReturn(value, ends=ends):
                # If the run has sent an answer already, the model need not see a result that only
                # confirms the call.
                shown = not (ends and self._answered)
                return CallReturn(value, shown=shown, checkpoint=result.sent)
            case ToolReturnMedia(text, media):
                index = f"{self.ctx.run_id[:8]}_{len(self.finished)}"
                self.observed.append((name, tuple(map(model_part, media_content(media, index)))))
                return CallReturn(indexed_text(text, media, index), checkpoint=result.sent)
            case BehaviorReturn(text):
                # The text was noted in the chat's history, so the code's output need not show it.
                return CallReturn(text, shown=False, checkpoint=result.sent)
            case Observation(text):
                self.observed.append((name, (TextPart(text),)))
                return EndRun()
            case RichObservation(parts):
                self.observed.append((name, tuple(map(model_part, parts))))
                return EndRun()
            case ToolCallFailed(message):
                return CallFailure(message, checkpoint=result.sent)
            case _:
                assert_never(result.outcome)

    def take_unsaved(self) -> list[ToolCall]:
        """Return the calls in `finished` that are not stored yet. The caller must store them."""
        if self._save_timer is not None:
            self._save_timer.cancel()
            self._save_timer = None
        unsaved = self.finished[self._saved :]
        self._saved = len(self.finished)
        return unsaved

    def _save_soon(self) -> None:
        if self._save_timer is None and self._save is not _save_nowhere:
            self._save_timer = asyncio.get_running_loop().call_later(
                _SAVED_WITHIN_S, self._save_now
            )

    def _save_now(self) -> None:
        self._save_timer = None
        begun = [logged() for logged in self._in_progress.values()]
        self._in_progress.clear()
        if calls := [*self.take_unsaved(), *begun]:
            self._save(calls)

    def record_skipped(
        self, position: int, name: str, arguments: Mapping[str, Any], why: str
    ) -> None:
        """Log a call that was requested but not carried out."""
        self.finished.append(
            ToolCall(
                position=position,
                name=name,
                arguments=arguments_text((), dict(arguments)),
                outcome=why,
                started=self._wall(),
                seconds=0.0,
            )
        )


def guest_functions(tools: ToolSet) -> list[GuestFunction]:
    """Return the tools as functions for the code in the box."""
    return [
        GuestFunction(names=named.names, signature=parameters_text(named.tool), doc=doc(named.tool))
        for named in tools.named
    ]


def model_part(content: Content) -> Part:
    """Convert a tool's content into a part of a prompt."""
    match content:
        case TextContent(text):
            return TextPart(text)
        case ImageContent():
            return ImagePart(content.data, content.mime or "image/png", content.url)
        case AudioContent():
            return AudioPart(content.data, content.format)
        case _:
            assert_never(content)


def arguments_text(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Write arguments for people, as JSON, with long texts and lists cut."""
    values = {"args": [_bounded(value) for value in args]} if args else {}
    text = json.dumps({**values, **_bounded(kwargs)}, ensure_ascii=False)
    if len(text) <= _ARGUMENTS_CHARS:
        return text
    return f"{text[:_ARGUMENTS_CHARS]}… ({len(text)} characters)"


def _bounded(value: Any) -> Any:
    match value:
        case str() if len(value) > _ARGUMENT_CHARS:
            return f"{value[:_ARGUMENT_CHARS]}… ({len(value)} characters)"
        case bytes():
            return f"<bytes of {len(value)} bytes>"
        case list():
            return [_bounded(each) for each in value[:_ARGUMENT_ITEMS]]
        case dict():
            items = itertools.islice(value.items(), _ARGUMENT_ITEMS)
            return {_bounded(key): _bounded(each) for key, each in items}
    return value
