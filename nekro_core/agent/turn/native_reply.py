"""Reads one reply of a model that calls functions natively."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from nekro_core.agent.turn.live_words import LiveWords
from nekro_core.agent.turn.reply import End
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    FunctionCall,
    ModelError,
    ReplyFinished,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.tokens import estimate_usage


def _ignore() -> None:
    return None


_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeReply:
    """The part of a reply that arrived: its text, its calls, and how it ended."""

    prose: str
    calls: tuple[FunctionCall, ...]
    end: End
    usage: RequestUsage
    model_error: ModelError | None = None


class NativeReader:
    """Reads one reply. ``text`` is the part that has arrived so far, also after a cancellation."""

    def __init__(
        self,
        model: ChatModel,
        *,
        max_chars: int,
        words: LiveWords | None = None,
        on_text: Callable[[], object] = _ignore,
        on_end: Callable[[], object] = _ignore,
    ) -> None:
        """``words`` sends words while the model writes. ``on_text`` is called with each part of the
        reply, ``on_end`` when it has ended."""
        self._on_text = on_text
        self._on_end = on_end
        self._model = model
        self._max_chars = max_chars
        self._words = words
        self._chunks: list[str] = []
        self._calls: list[FunctionCall] = []
        self._usage: RequestUsage | None = None

    @property
    def text(self) -> str:
        """The text that has arrived, and the calls in the form that people see."""
        return "\n".join(filter(None, ["".join(self._chunks), calls_text(self._calls)]))

    @property
    def begun(self) -> bool:
        """Whether words of the reply were sent, so that the reply must not be dropped. Calls are
        carried out only after the whole reply has arrived, so they do not count here."""
        return self._words is not None and self._words.begun

    def usage(self, request: ChatRequest) -> RequestUsage:
        """Return the usage that the provider reported, or an estimate from the part that has
        arrived."""
        return self._usage or estimate_usage(request, self.text)

    async def read(self, request: ChatRequest) -> NativeReply:
        """Ask the model and read its reply. Raises `ModelError` only if no part of the reply
        arrived."""
        if self._words is None:
            return await self._read(request)
        failure: ModelError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._words.send_finished, name="words of a reply")
            try:
                reply = await self._read(request)
            except ModelError as error:
                failure = error
            self._words.end()
        if failure is not None:
            raise failure
        return reply

    async def _read(self, request: ChatRequest) -> NativeReply:
        end: End = "whole"
        length = 0
        broken: ModelError | None = None
        try:
            async with self._model.stream(request) as deltas:
                async for delta in deltas:
                    self._on_text()
                    match delta:
                        case TextDelta(text):
                            self._chunks.append(text)
                            length += len(text)
                            if self._words is not None:
                                self._words.write(text)
                        case FunctionCall():
                            self._calls.append(delta)
                        case RequestUsage():
                            self._usage = delta
                        case ReplyFinished("length"):
                            end = "length"
                    if length > self._max_chars:
                        end = "length"
                        break
        except ModelError as error:
            if not self._chunks and not self._calls:
                raise
            end, broken = "broken", error
        self._on_end()
        return NativeReply(
            prose="".join(self._chunks).strip(),
            calls=tuple(self._calls),
            end=end,
            usage=self.usage(request),
            model_error=broken,
        )


def calls_text(calls: Sequence[FunctionCall]) -> str:
    """Write calls for people, each as one line of Python."""
    return "\n".join(map(_call_text, calls))


def _call_text(call: FunctionCall) -> str:
    # The model chose the names. Quote a name that is not a plain identifier.
    name = call.name if _NAME.fullmatch(call.name) else repr(call.name)
    if call.problem:
        return f"{name}(...)  # {' '.join(call.problem.split())}"
    arguments = [
        f"{key if _NAME.fullmatch(key) else repr(key)}={value!r}"
        for key, value in call.arguments.items()
    ]
    return f"{name}({', '.join(arguments)})"
