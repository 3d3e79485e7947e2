"""Records each request to a model, in the metrics and as a span: its outcome, times, tokens and
cost."""

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

from nekro_core.llm.chain import reason_of
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    FunctionCall,
    ModelError,
    ModelProfile,
    ReplyFinished,
    RequestUsage,
    TextDelta,
    message_text,
)
from nekro_core.llm.tokens import estimate_usage
from nekro_core.system.telemetry.spans import AttributeValue, Span, TracedContent
from nekro_core.system.telemetry.telemetry import Telemetry

_OK = "ok"
_CUT = "cut"
"""The outcome of a request whose caller stopped reading before the reply had ended."""


class ObservedModel:
    """A `ChatModel` that passes each request to an inner model and records it. Closing it closes
    the inner model.

    Args:
        model: The inner model.
        telemetry: The metrics and the tracer in which the requests are recorded.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        model: ChatModel,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._telemetry = telemetry
        self._clock = clock

    @property
    def profile(self) -> ModelProfile:
        """The profile of the inner model."""
        return self._model.profile

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel.prepare`."""
        await self._model.prepare(likely)

    async def aclose(self) -> None:
        """Close the inner model."""
        await self._model.aclose()

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """See `ChatModel.stream`."""
        record = _RequestRecord(self._telemetry, self._model.profile, request, self._clock)
        try:
            async with (
                self._model.stream(request) as deltas,
                aclosing(_read(deltas, record)) as read,
            ):
                yield read
        except ModelError as error:
            record.result = reason_of(error).value
            raise
        finally:
            record.end()


async def _read(
    deltas: AsyncIterator[Delta], record: "_RequestRecord"
) -> AsyncGenerator[Delta, None]:
    async for delta in deltas:
        record.take(delta)
        yield delta


class _RequestRecord:
    """Collects what is known about one request while its reply arrives."""

    def __init__(
        self,
        telemetry: Telemetry,
        profile: ModelProfile,
        request: ChatRequest,
        clock: Callable[[], float],
    ) -> None:
        self.result = _CUT
        self._telemetry = telemetry
        self._profile = profile
        self._request = request
        self._clock = clock
        self._began = clock()
        self._first: float | None = None
        self._words: list[str] = []
        self._usage: RequestUsage | None = None
        self._finish = ""
        self._span = telemetry.tracer.begin(
            f"chat {profile.name}", _attributes(profile, request), client=True
        )

    def take(self, delta: Delta) -> None:
        """Take the next part of the reply."""
        match delta:
            case TextDelta(text):
                self._words.append(text)
                self._begin_reply()
            case FunctionCall():
                self._begin_reply()
            case RequestUsage():
                self._usage = delta
            case ReplyFinished(reason):
                self.result, self._finish = _OK, reason

    def _begin_reply(self) -> None:
        if self._first is None:
            self._first = self._clock() - self._began

    def end(self) -> None:
        """Record the request. If the provider did not say how many tokens the request used, their
        number is estimated."""
        metrics, model = self._telemetry.metrics, self._profile.name
        metrics.model_requests.add(model, self.result)
        metrics.model_seconds.observe(self._clock() - self._began, model)
        if self._first is not None:
            metrics.model_first_token.observe(self._first, model)
        usage = self._usage
        if usage is None and self._words:
            usage = estimate_usage(self._request, "".join(self._words))
        self._end_span(self._span, usage)
        if usage is None:
            return
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        metrics.tokens.add(model, "prompt", by=usage.prompt_tokens - cached)
        metrics.tokens.add(model, "cached", by=cached)
        metrics.tokens.add(model, "completion", by=usage.completion_tokens)
        price = self._profile.price
        metrics.money.add(model, price.source.value, by=price.of(usage))

    def _end_span(self, span: Span, usage: RequestUsage | None) -> None:
        tracer = self._telemetry.tracer
        if tracer.enabled:
            if usage is not None:
                span.note("gen_ai.usage.input_tokens", usage.prompt_tokens)
                span.note("gen_ai.usage.output_tokens", usage.completion_tokens)
                span.note("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)
            if self._first is not None:
                span.note("gen_ai.response.time_to_first_chunk", self._first)
            if self._finish:
                span.note("gen_ai.response.finish_reasons", (self._finish,))
            span.note("nekro.request.result", self.result)
            if tracer.shows(TracedContent.PROMPTS):
                said = [(each.role, message_text(each)) for each in self._request.messages]
                span.note("gen_ai.input.messages", _messages(said))
            if tracer.shows(TracedContent.REPLIES):
                reply = [("assistant", "".join(self._words))]
                span.note("gen_ai.output.messages", _messages(reply))
            if self.result not in (_OK, _CUT):
                span.fail(self.result)
        span.end()


def _attributes(profile: ModelProfile, request: ChatRequest) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": profile.provider,
        "gen_ai.request.model": profile.name,
        "gen_ai.request.max_tokens": request.max_tokens,
    }
    if request.temperature is not None:
        found["gen_ai.request.temperature"] = request.temperature
    return found


def _messages(said: Sequence[tuple[str, str]]) -> str:
    """Write messages in the JSON form of OpenTelemetry's conventions for generative AI. Pictures
    and sounds are left out."""
    return json.dumps(
        [{"role": role, "parts": [{"type": "text", "content": content}]} for role, content in said],
        ensure_ascii=False,
    )
