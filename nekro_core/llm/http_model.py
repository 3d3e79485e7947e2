"""Asks a chat model over HTTP in one of the protocols of providers, with retries and backoff."""

import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from nekro_core.llm.anthropic_messages import AnthropicMessages
from nekro_core.llm.chat_completions import ChatCompletions
from nekro_core.llm.endpoint import AttemptFailed, ModelEndpoint, RequestAttempt
from nekro_core.llm.events import (
    ContentEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    FinishEvent,
    ReasoningEvent,
    RefusalEvent,
    UsageEvent,
)
from nekro_core.llm.failures import Redactor, model_error, status_of
from nekro_core.llm.function_calls import (
    FunctionCallAssembler,
    FunctionCallDelta,
    TooManyFunctionCalls,
)
from nekro_core.llm.known_prices import with_published_figures
from nekro_core.llm.model import (
    ChatRequest,
    Delta,
    ModelError,
    ModelProfile,
    ModelRefused,
    ModelUnreachable,
    ReplyBroken,
    ReplyFinished,
    RequestRejected,
    TextDelta,
)
from nekro_core.llm.openai_responses import OpenAIResponses
from nekro_core.llm.settings import LLMSettings
from nekro_core.llm.stop_cutter import StopCutter
from nekro_core.llm.thought_filter import ThoughtFilter
from nekro_core.llm.wire_format import ModelProtocol, WireFormat

_LONGEST_BACKOFF_S = 30.0
"""Maximum wait in seconds before a retry. If the provider asks for a longer wait, the request
fails, because a person waits for the answer."""

_LENGTH_REASONS = frozenset(
    {"length", "max_tokens", "model_length", "model_context_window_exceeded"}
)
_FILTER_REASONS = frozenset({"content_filter", "refusal", "safety", "sensitive"})


class HttpChatModel:
    """A `ChatModel` over HTTP.

    The last deltas of a reply are its calls, `RequestUsage` and `ReplyFinished`. If the provider
    sends no usage, or refuses the field that asks for it, the usage is estimated and marked as
    estimated. If a reply breaks off, its calls and `RequestUsage` are yielded before `ReplyBroken`
    is raised. Thoughts (what a reasoning model writes before its reply) are counted as tokens, but
    are not part of the reply.

    A request is retried with backoff and jitter until any part of the reply has arrived. A thought
    counts as a part of the reply, because the provider charges for it. The header ``Retry-After``
    is obeyed if it asks for a wait of up to 30 s. If it asks for more, `QuotaExceeded` is raised
    and says when to ask again. ``socket`` is a Unix socket that replaces the host of the address.
    Tests pass their own ``clock``, ``sleep`` and ``jitter``.
    """

    def __init__(
        self,
        settings: LLMSettings,
        *,
        profile: ModelProfile | None = None,
        socket: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not settings.configured:
            raise ValueError("no base_url: there is no endpoint for the request")
        self._settings = settings
        self._look_up = profile is None
        self._profile = profile or ModelProfile(
            name=settings.model,
            vision=settings.vision,
            audio=settings.audio,
            grammar=settings.grammar,
            functions=True,
            context_tokens=settings.context_tokens,
            price=settings.price,
            provider="anthropic" if settings.protocol == "anthropic" else "openai",
        )
        self._socket = socket
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._redact = Redactor(settings.api_key.get_secret_value())
        self._wire = wire_format(settings.protocol)
        self._lock = anyio.Lock()
        self._endpoint: ModelEndpoint | None = None

    @property
    def profile(self) -> ModelProfile:
        """Return what the model can do according to the operator's settings. If the settings lack a
        price or a context size, the published value is used after the first connection."""
        return self._profile

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:  # noqa: ARG002
        """Make the HTTP client. ``likely`` is not used: the provider has its own prompt cache."""
        await self.connect()

    async def connect(self) -> ModelEndpoint:
        """Make the HTTP client, if there is none yet, and return it.

        The client is made in a thread, because reading the certificates takes 0.1 s. The first
        request calls this method; other code may call it earlier.
        """
        if self._endpoint is not None:
            return self._endpoint
        async with self._lock:
            if self._look_up:
                self._profile = await with_published_figures(self._settings, self._profile)
                self._look_up = False
            if self._endpoint is None:
                self._endpoint = await anyio.to_thread.run_sync(
                    ModelEndpoint,
                    self._settings,
                    self._redact,
                    self._socket,
                    self._clock,
                    self._wire,
                )
            return self._endpoint

    async def aclose(self) -> None:
        """Close the connections. A later request opens new connections."""
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            await endpoint.aclose()

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """Send a request; see `ChatModel.stream`."""
        deltas = self._deltas(request)
        try:
            yield deltas
        finally:
            # Close the connection even if the caller is cancelled. This may take at most 2 s.
            with anyio.move_on_after(2, shield=True):
                await deltas.aclose()

    async def _deltas(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        endpoint = await self.connect()
        deadline = self._clock() + self._settings.total_s
        tries = 0
        while True:
            wire = self._wire
            try:
                async with aclosing(self._try(endpoint, request, wire, deadline)) as deltas:
                    async for delta in deltas:
                        yield delta
            except AttemptFailed as failed:
                error = failed.error
                if failed.begun:
                    raise error from failed.__cause__
                if isinstance(error, RequestRejected) and (other := wire.without(str(error))):
                    self._wire = other
                    continue
                wait = self._backoff(error, tries)
                too_late = self._clock() + wait >= deadline or wait > _LONGEST_BACKOFF_S
                most = self._settings.retries if request.retries is None else request.retries
                if not failed.again or tries >= most or too_late:
                    raise error from failed.__cause__
            else:
                return
            tries += 1
            await self._sleep(wait)

    def _backoff(self, error: ModelError, tries: int) -> float:
        asked = getattr(error, "retry_after_s", None) or 0.0
        wished = 0.5 * 2.0**tries
        return float(max(asked, wished) + wished * self._jitter())

    async def _try(
        self, endpoint: ModelEndpoint, request: ChatRequest, wire: WireFormat, deadline: float
    ) -> AsyncGenerator[Delta, None]:
        attempt = RequestAttempt(request, calls=FunctionCallAssembler(self._profile.name))
        thoughts = ThoughtFilter()
        # Stop texts of only whitespace are cut here too: Anthropic's protocol refuses them.
        stop = StopCutter(
            [each for each in request.stop if not wire.takes_stop or not each.strip()]
        )
        fields = self._encode(request, wire)
        async with aclosing(endpoint.events(fields, attempt, deadline)) as events:
            try:
                async for event in events:
                    if text := self._take(event, attempt, thoughts, stop):
                        yield TextDelta(text)
                    if not attempt.room:
                        attempt.reason = "length"
                    if not attempt.room or attempt.done:
                        break
                if rest := f"{stop.feed(thoughts.finish())}{stop.finish()}":
                    attempt.words.append(rest)
                    yield TextDelta(rest)
                self._require_finish_reason(attempt)
            except AttemptFailed as failed:
                if failed.begun:
                    for call in attempt.calls.finish(cut="the reply broke off"):
                        yield call
                    yield attempt.usage()
                raise
            limited = attempt.reason in _LENGTH_REASONS
            cut = "the reply reached its limit of tokens" if limited else ""
            if attempt.reason not in _FILTER_REASONS:
                for call in attempt.calls.finish(cut=cut):
                    yield call
            yield attempt.usage()
            if attempt.reason in _FILTER_REASONS:
                raise AttemptFailed(
                    ModelRefused(f"the provider's filter stopped the reply ({attempt.reason})"),
                    begun=attempt.begun,
                )
            yield ReplyFinished("length" if limited else "stop")
            if attempt.done:
                async for _ in events:
                    pass  # Read the body to its end, so that the connection can be used again.

    def _encode(self, request: ChatRequest, wire: WireFormat) -> dict[str, Any]:
        """Return the JSON body of a request that is about to be sent, and report it to
        ``request.on_sent``. For every protocol, the reported body has the form of Chat
        Completions."""
        extra = self._settings.extra_body
        fields = wire.encode(request, self._profile, extra)
        if request.on_sent is not None:
            told = fields
            if not isinstance(wire, ChatCompletions):
                told = ChatCompletions().encode(request, self._profile, extra)
            request.on_sent(request, told)
        return fields

    def _take(
        self, event: Event, attempt: RequestAttempt, thoughts: ThoughtFilter, stop: StopCutter
    ) -> str:
        """Store an event in ``attempt``. Return the reply's text in the event, or an empty text."""
        match event:
            case ContentEvent(words):
                text = stop.feed(thoughts.feed(words)[: attempt.room])
                attempt.characters += len(words)
                attempt.words.append(text)
                if stop.reached:
                    attempt.reason, attempt.done = "stop", True
                return text
            case FunctionCallDelta():
                self._take_piece(event, attempt)
            case ReasoningEvent(words):
                attempt.thought_characters += len(words)
            case RefusalEvent(words):
                raise AttemptFailed(
                    ModelRefused(f"the model declines: {self._redact(words)}"), begun=attempt.begun
                )
            case ErrorEvent(body):
                raise self._failed_inside(body, attempt)
            case FinishEvent(reason):
                attempt.reason = reason
            case UsageEvent():
                attempt.cost = event
            case DoneEvent():
                attempt.done = True
        return ""

    def _take_piece(self, piece: FunctionCallDelta, attempt: RequestAttempt) -> None:
        attempt.call_characters += len(piece.name) + len(piece.arguments)
        try:
            attempt.calls.feed(piece)
        except TooManyFunctionCalls as error:
            raise AttemptFailed(ReplyBroken(str(error)), begun=True) from error

    def _require_finish_reason(self, attempt: RequestAttempt) -> None:
        """Raise `AttemptFailed` if the stream ended with neither a finish reason nor an end mark,
        or with the finish reason ``error``, because part of the reply may be missing."""
        if attempt.reason != "error" and (attempt.reason or attempt.done):
            return
        if attempt.begun:
            raise AttemptFailed(ReplyBroken("the reply ended without its end"), begun=True)
        host = urlsplit(self._settings.base_url).netloc
        raise AttemptFailed(
            ModelUnreachable(f"{host} closed the connection without a reply"), again=True
        )

    def _failed_inside(self, body: Any, attempt: RequestAttempt) -> AttemptFailed:
        error, again = model_error(
            status_of(body), body, "an error without a message", self._redact
        )
        if attempt.begun:
            return AttemptFailed(ReplyBroken(f"the reply broke off: {error}"), begun=True)
        return AttemptFailed(error, again=again)


def wire_format(protocol: ModelProtocol) -> WireFormat:
    """Return the format of a protocol, with all its optional fields."""
    match protocol:
        case ModelProtocol.CHAT:
            return ChatCompletions()
        case ModelProtocol.RESPONSES:
            return OpenAIResponses()
        case ModelProtocol.ANTHROPIC:
            return AnthropicMessages()
