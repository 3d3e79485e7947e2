"""The calls of one run: each to its tool, and what it means for the run and the turn."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from nekro_core.chat import ChatKey, Receipt, Segment
from nekro_core.llm.model import AudioPart, ImagePart, Part, TextPart
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.sandbox.box import Answer, CallFailure, CallReturn, EndRun, GuestCall, GuestFunction
from nekro_core.store import ToolCall
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
from nekro_core.tools.tool import Visibility

_ARGUMENT_CHARS = 2000
"""Of one text among the arguments that are kept for people to read."""
_ARGUMENT_ITEMS = 100
"""Of one list or dict among them."""
_ARGUMENTS_CHARS = 16_000
"""Of all arguments of a call together. A thousand calls of 16 MB each would else be in memory until
the run is over."""

_KEPT_S = 0.02
"""How long after its begin or end a call is written down at the latest, so that a restart knows of
it; those of that time together, since a loop makes a thousand calls in a moment."""
IN_PROGRESS = ""
"""`ToolCall.outcome` of a call that is not over."""

Note = Callable[[str], Awaitable[object]]
"""Puts a system line into the chat's record."""
Keep = Callable[[Sequence[ToolCall]], object]
"""Writes down calls; their place in line is taken before it returns."""


def _nowhere(_: Sequence[ToolCall]) -> None:
    return None


class CallSender:
    """The way out (`MessageSender`) of one call: others run beside it, and send what is not its
    own."""

    def __init__(self, outgoing: MessageSender) -> None:
        self._outgoing = outgoing
        self.left = False
        """Whether a message of it left, or may have."""

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """See `MessageSender.send`."""
        receipts = await self._outgoing.send(chat_key, segments, run_id=run_id)
        self.left = self.left or any(receipt.state.left for receipt in receipts)
        return receipts


class RunCalls:
    """Answers a run's calls. Identity comes from ``ctx``, never from arguments."""

    def __init__(
        self,
        tools: ToolSet,
        ctx: AgentCtx,
        *,
        note: Note,
        clock: Callable[[], float],
        wall: Callable[[], float],
        keep: Keep = _nowhere,
    ) -> None:
        self._keep = keep
        self._positions = itertools.count()
        self._at_work: dict[int, Callable[[], ToolCall]] = {}
        self._kept = 0
        self._due: asyncio.TimerHandle | None = None
        self._tools = tools
        self.ctx = ctx
        """What tools are called with, but for each call's own way out."""
        self._note = note
        self._clock = clock
        self._wall = wall
        self.made: list[ToolCall] = []
        self.observed: list[tuple[str, tuple[Part, ...]]] = []
        self.recorded = False
        """Whether a ``BEHAVIOR`` did something of which the chat's record tells."""
        self.unread = ""
        """What a search found, until one of the finds is called: the model has yet to see it."""

    async def answer(self, call: GuestCall) -> Answer:
        """See `nekro_core.sandbox.box.CallHandler`. What the code prints before a call that sent
        something needs no further step: such an answer is a checkpoint."""
        services = self.ctx.services
        sends = CallSender(services.outgoing)
        ctx = replace(self.ctx, services=replace(services, outgoing=sends))
        outcome = await self.outcome(call.name, call.args, call.kwargs, ctx)
        sent = sends.left
        match outcome:
            case ToolReturn(value):
                return CallReturn(value, checkpoint=sent)
            case ToolReturnMedia(text, media):
                index = f"{self.ctx.run_id[:8]}_{len(self.made)}"
                shown = tuple(map(model_part, media_content(media, index)))
                self.observed.append((call.name, shown))
                return CallReturn(indexed_text(text, media, index), checkpoint=sent)
            case BehaviorReturn(text):
                # The chat's record has it.
                return CallReturn(text, shown=False, checkpoint=sent)
            case Observation(text):
                self.observed.append((call.name, (TextPart(text),)))
                return EndRun()
            case RichObservation(parts):
                self.observed.append((call.name, tuple(map(model_part, parts))))
                return EndRun()
            case ToolCallFailed(message):
                return CallFailure(message, checkpoint=sent)
            case _:
                assert_never(outcome)

    async def outcome(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        ctx: AgentCtx | None = None,
        position: int | None = None,
    ) -> Outcome:
        """Call a tool by name. Whatever becomes of it is written down, and what a ``BEHAVIOR`` said
        in the chat's record too. ``position`` is the call's place among those of its reply."""
        began, started = self._clock(), self._wall()
        told = "cut off: the run ended before the tool did"
        place = next(self._positions) if position is None else position

        def made(outcome: str, seconds: float) -> ToolCall:
            return ToolCall(
                position=place,
                name=name,
                arguments=arguments_text(args, kwargs),
                outcome=outcome,
                started=started,
                seconds=seconds,
            )

        self._at_work[place] = lambda: made(IN_PROGRESS, 0.0)
        self._keep_soon()
        try:
            tool = self._tools.resolve(name)
            if tool is None:
                close = ", ".join(self._tools.similar_names(name))
                told = f"there is no function {name!r}" + (f"; there is {close}" if close else "")
                return ToolCallFailed(told)
            outcome = await call_tool(tool, ctx or self.ctx, args, kwargs)
            told = outcome.message if isinstance(outcome, ToolCallFailed) else "ok"
            if isinstance(outcome, BehaviorReturn):
                self.recorded = True
                await self._note(outcome.text)
            if is_search(tool) and isinstance(outcome, ToolReturn):
                self.unread = str(outcome.value)
            elif tool.visibility is Visibility.DEFERRED:
                self.unread = ""
            return outcome
        finally:
            self._at_work.pop(place, None)
            self.made.append(made(told, self._clock() - began))
            self._keep_soon()

    def take_unsaved(self) -> list[ToolCall]:
        """Calls that are over and not written down yet; whoever asks writes them down."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        rest = self.made[self._kept :]
        self._kept = len(self.made)
        return rest

    def _keep_soon(self) -> None:
        if self._due is None and self._keep is not _nowhere:
            self._due = asyncio.get_running_loop().call_later(_KEPT_S, self._keep_now)

    def _keep_now(self) -> None:
        self._due = None
        begun = [at_work() for at_work in self._at_work.values()]
        self._at_work.clear()
        if calls := [*self.take_unsaved(), *begun]:
            self._keep(calls)

    def record_skipped(
        self, position: int, name: str, arguments: Mapping[str, Any], why: str
    ) -> None:
        """Write down a call that was asked for and not carried out."""
        self.made.append(
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
    """The tools as the guest binds them."""
    return [
        GuestFunction(names=named.names, signature=parameters_text(named.tool), doc=doc(named.tool))
        for named in tools.named
    ]


def model_part(content: Content) -> Part:
    """A tool's content as a part of a prompt."""
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
    """Arguments as people read them: JSON, long texts and lists cut."""
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
