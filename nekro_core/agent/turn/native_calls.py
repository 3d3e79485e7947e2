"""Carries out the function calls of one reply. The calls run at the same time, their messages are
sent in the order of the calls, and each call gets exactly one answer."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, assert_never

import anyio

from nekro_core.agent.prompt.prompt import CallAnswer
from nekro_core.agent.prompt.transcript import escape_invisible, shortened
from nekro_core.agent.turn.long_texts import WriteFile, bounded_text, write_result
from nekro_core.agent.turn.run_calls import CallResult, RunCalls, model_part
from nekro_core.agent.turn.value_text import value_text
from nekro_core.chat import ChatKey, Receipt, Segment
from nekro_core.llm.model import FunctionCall, Part, TextPart
from nekro_core.plugins.authoring.services import BoxFiles, MessageSender
from nekro_core.sandbox.box import GuestCall
from nekro_core.tools.media import indexed_text, media_content
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    Outcome,
    RichObservation,
    ToolCallFailed,
    ToolReturn,
    ToolReturnMedia,
)

MAX_WAIT_S = 3.0
"""Maximum number of seconds that a message waits for the messages of earlier calls. Preparing a
picture takes less time. A longer wait would delay "one moment, please" until the end of the search
that it announces."""


class SendOrder:
    """Puts the messages of several calls in order. A call's first message waits until every earlier
    call has sent a message or has ended, at most ``patience_s``."""

    def __init__(
        self, outgoing: MessageSender, calls: int, *, patience_s: float = MAX_WAIT_S
    ) -> None:
        self._outgoing = outgoing
        self._patience_s = patience_s
        self._passed = [anyio.Event() for _ in range(calls)]

    def of(self, position: int) -> MessageSender:
        """Return the sender of one call."""
        return _Ordered(self, position)

    def over(self, position: int) -> None:
        """Mark a call as ended, so that later calls do not wait for it."""
        self._passed[position].set()

    async def send(
        self, position: int, chat_key: ChatKey, segments: Sequence[Segment], run_id: str
    ) -> tuple[Receipt, ...]:
        """Send a message of a call, after the messages of earlier calls."""
        if not self._passed[position].is_set():
            with anyio.move_on_after(self._patience_s):
                for earlier in self._passed[:position]:
                    await earlier.wait()
        try:
            return await self._outgoing.send(chat_key, segments, run_id=run_id)
        finally:
            self._passed[position].set()


class _Ordered:
    def __init__(self, order: SendOrder, position: int) -> None:
        self._order = order
        self._position = position

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """See `MessageSender.send`."""
        return await self._order.send(self._position, chat_key, segments, run_id)


NOT_BEGUN = "not carried out: the turn was stopped before it began"
_ACKNOWLEDGED = ("", "sent", "ok", "done", "success")
"""Results that the model does not need if the function also sent a message. The model may need any
other result, such as the sum of a dice roll or an id."""
_KINDS = (
    (re.compile(rb"\x89PNG"), "png"),
    (re.compile(rb"\xff\xd8\xff"), "jpg"),
    (re.compile(rb"GIF8"), "gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "webp"),
    (re.compile(rb"RIFF.{4}WAVE", re.DOTALL), "wav"),
)


class CallTool(Protocol):
    """Carries out one call: `StepRunner.answer_call` in a turn, `RunCalls.call` outside one."""

    async def __call__(
        self, call: GuestCall, *, position: int, outgoing: MessageSender
    ) -> CallResult:
        """Carry out the call. Its messages are sent through ``outgoing``."""


class NativeCalls:
    """Carries out the calls of one reply with ``call_tool``. ``calls`` logs them. ``name_of`` maps
    a function's name to the tool's name. At most ``at_once`` calls run at the same time.
    ``result_chars`` limits the text of an answer."""

    def __init__(
        self,
        calls: RunCalls,
        call_tool: CallTool,
        name_of: Callable[[str], str],
        *,
        at_once: int,
        result_chars: int,
    ) -> None:
        self._calls = calls
        self._call_tool = call_tool
        self._name_of = name_of
        self._at_once = at_once
        self._result_chars = result_chars

    async def carry_out(self, wanted: Sequence[FunctionCall]) -> list[CallAnswer]:
        """Carry out the calls and return their answers in order. If this method is cancelled,
        running handlers are cancelled, and all calls are still added to `RunCalls.finished`."""
        answers: dict[int, CallAnswer] = {}
        begun: set[int] = set()
        order = SendOrder(self._calls.ctx.services.outgoing, len(wanted))
        slots = anyio.CapacityLimiter(self._at_once)

        async def one(position: int, call: FunctionCall) -> None:
            try:
                async with slots:
                    begun.add(position)
                    answers[position] = await self._answer(position, call, order.of(position))
            finally:
                order.over(position)

        try:
            async with anyio.create_task_group() as tasks:
                for position, call in enumerate(wanted):
                    tasks.start_soon(one, position, call)
        finally:
            for position, call in enumerate(wanted):
                if position not in begun:
                    self._calls.record_skipped(position, call.name, call.arguments, NOT_BEGUN)
        return [answers[position] for position in range(len(wanted))]

    async def _answer(
        self, position: int, call: FunctionCall, outgoing: MessageSender
    ) -> CallAnswer:
        if call.problem:
            written = {"arguments": call.written}
            self._calls.record_skipped(position, call.name, written, call.problem)
            return _error(call, f"this call was not carried out: {call.problem}")
        request = GuestCall(name=self._name_of(call.name), args=(), kwargs=dict(call.arguments))
        result = await self._call_tool(request, position=position, outgoing=outgoing)
        answer = await self._answer_of(position, call, result.outcome)
        return replace(answer, ends=_ends(result.outcome, sent=result.sent))

    async def _answer_of(self, position: int, call: FunctionCall, outcome: Outcome) -> CallAnswer:
        media: tuple[Part, ...] = ()
        match outcome:
            case ToolReturn(bytes() | bytearray() as data):
                return await self._bytes_in_box(position, call, bytes(data))
            case ToolReturn(value, words, _):
                text = words or value_text(value)
            case ToolReturnMedia(words, shown, _):
                text = indexed_text(words, shown, call.call_id)
                media = tuple(map(model_part, media_content(shown, call.call_id)))
            case BehaviorReturn(text) | Observation(text):
                pass
            case RichObservation(contents):
                parts = [model_part(each) for each in contents]
                text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
                media = tuple(part for part in parts if not isinstance(part, TextPart))
                text = text or "(see below)"
            case ToolCallFailed(message):
                return _error(call, message)
            case _:
                assert_never(outcome)
        return CallAnswer(call=call, text=await self._bounded(position, text), media=media)

    async def _bounded(self, position: int, text: str) -> str:
        """Shorten a text to about ``result_chars``. The result has the beginning and the end, and
        the path of the whole text in the box."""
        if len(text) <= self._result_chars:
            return shortened(escape_invisible(text), self._result_chars * 2)
        bounded = await bounded_text(
            text, self._result_chars, f"{self._stem(position)}.txt", self._write_file
        )
        return shortened(escape_invisible(bounded.text), self._result_chars * 2)

    async def _bytes_in_box(self, position: int, call: FunctionCall, data: bytes) -> CallAnswer:
        kind = next((kind for head, kind in _KINDS if head.match(data)), "bin")
        path = await write_result(f"{self._stem(position)}.{kind}", data, self._write_file)
        if not path:
            return _error(call, f"the result of {len(data)} bytes could not be kept in the box")
        return CallAnswer(call=call, text=f"{len(data)} bytes, kept in {path}")

    def _stem(self, position: int) -> str:
        return f"{self._calls.ctx.run_id[:8]}-{position + 1}"

    @property
    def _write_file(self) -> WriteFile | None:
        box: BoxFiles | None = self._calls.ctx.box
        return box.write_file if box is not None else None


def _ends(outcome: Outcome, *, sent: bool) -> bool:
    """Return whether the model does not need to read the outcome, so that no further step is
    needed."""
    match outcome:
        case BehaviorReturn():
            return True
        case ToolReturn(value, text, ends):
            plain = value is None or value is True or str(value).strip().lower() in _ACKNOWLEDGED
            return ends or (sent and plain and not text)
        case ToolReturnMedia(ends=ends):
            return ends
        case Observation() | RichObservation() | ToolCallFailed():
            return False
        case _:
            assert_never(outcome)


def _error(call: FunctionCall, message: str) -> CallAnswer:
    return CallAnswer(call=call, text=f"[error] {escape_invisible(message)}", failed=True)
