"""The calls of one run: each to its tool, and what it means for the run and the turn."""

import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, assert_never

from nekro_core.llm.model import AudioPart, ImagePart, Part, TextPart
from nekro_core.plugin.calls import call as call_tool
from nekro_core.plugin.context import AgentCtx
from nekro_core.sandbox.box import Answer, EndRun, GuestCall, GuestFunction, Raise, Value
from nekro_core.store import ToolCall
from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent
from nekro_core.tools.names import ToolSet
from nekro_core.tools.outcome import (
    Failed,
    Observation,
    Outcome,
    Recorded,
    Returned,
    RichObservation,
)
from nekro_core.tools.stub import doc, parameters_text, stub
from nekro_core.tools.tool import Visibility

_ARGUMENT_CHARS = 2000
"""Of one text among the arguments that are kept for people to read."""
_ARGUMENT_ITEMS = 100
"""Of one list or dict among them."""
_ARGUMENTS_CHARS = 16_000
"""Of all arguments of a call together. A thousand calls of 16 MB each would else be in memory until
the run is over."""

Note = Callable[[str], Awaitable[object]]
"""Puts a system line into the chat's record."""


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
    ) -> None:
        self._tools = tools
        self._ctx = ctx
        self._note = note
        self._clock = clock
        self._wall = wall
        self.made: list[ToolCall] = []
        self.observed: list[tuple[str, tuple[Part, ...]]] = []

    async def answer(self, call: GuestCall) -> Answer:
        """See `nekro_core.sandbox.box.CallHandler`."""
        began, started = self._clock(), self._wall()
        told = "cut off: the run ended before the tool did"
        try:
            tool = self._tools.resolve(call.name)
            if tool is None:
                close = ", ".join(self._tools.close_to(call.name))
                told = f"there is no function {call.name!r}" + (
                    f"; there is {close}" if close else ""
                )
                return Raise(told)
            outcome = await call_tool(tool, self._ctx, call.args, call.kwargs)
            told = outcome.message if isinstance(outcome, Failed) else "ok"
            return await self._consequence(call.name, outcome)
        finally:
            self.made.append(
                ToolCall(
                    position=len(self.made),
                    name=call.name,
                    arguments=_as_json(call.args, call.kwargs),
                    outcome=told,
                    started=started,
                    seconds=self._clock() - began,
                )
            )

    async def _consequence(self, name: str, outcome: Outcome) -> Answer:
        match outcome:
            case Returned(value):
                return Value(value)
            case Recorded(text):
                await self._note(text)
                return Value(text)
            case Observation(text):
                self.observed.append((name, (TextPart(text),)))
                return EndRun()
            case RichObservation(parts):
                self.observed.append((name, tuple(map(_part, parts))))
                return EndRun()
            case Failed(message):
                return Raise(message)
            case _:
                assert_never(outcome)


def guest_functions(tools: ToolSet) -> list[GuestFunction]:
    """The tools as the guest binds them."""
    return [
        GuestFunction(names=named.names, signature=parameters_text(named.tool), doc=doc(named.tool))
        for named in tools.named
    ]


def tools_text(tools: ToolSet) -> str:
    """The visible tools as the model reads them."""
    stubs = []
    for named in tools.named:
        if named.tool.visibility is Visibility.VISIBLE:
            mark = "  # ends the run" if named.tool.kind.ends_run else ""
            # A tool that has no bare name is written as it must be called.
            dotted = f"# call it as {named.name}\n" if "." in named.name else ""
            head, _, body = stub(named.tool, named.name).partition("\n")
            stubs.append(f"{dotted}{head}{mark}\n{body}")
    return "\n\n".join(stubs)


def _part(content: Content) -> Part:
    match content:
        case TextContent(text):
            return TextPart(text)
        case ImageContent():
            return ImagePart(content.data, content.mime or "image/png", content.url)
        case AudioContent():
            return AudioPart(content.data, content.format)
        case _:
            assert_never(content)


def _as_json(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
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
