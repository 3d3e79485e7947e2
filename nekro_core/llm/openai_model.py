"""Any model behind an OpenAI-compatible address."""

import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import openai

from nekro_core.llm.dialect import Dialect, encode_request
from nekro_core.llm.events import (
    Cost,
    Done,
    Event,
    Failure,
    Refusal,
    Stopped,
    StreamGarbled,
    Thought,
    Words,
    parse_chunk,
    read_events,
)
from nekro_core.llm.failures import Redactor, describe, describe_status, status_of
from nekro_core.llm.model import (
    ChatRequest,
    Delta,
    Finished,
    ModelError,
    ModelProfile,
    ModelRefused,
    ModelUnreachable,
    ReplyBroken,
    RequestRejected,
    TextDelta,
    Usage,
)
from nekro_core.llm.settings import LLMSettings
from nekro_core.llm.thinking import ThoughtFilter
from nekro_core.llm.tokens import estimate_prompt, estimate_tokens

_AFTER_STOP_S = 5.0
"""How long the usage may come after the end of the words."""
_AFTER_DONE_S = 0.5
"""How long the end of the body may come after the mark of the end."""
_LONGEST_BACKOFF_S = 30.0
"""A provider that asks for more is better reported than waited for: a person is waiting too."""
_CHARACTERS_PER_TOKEN = 16
_LEAST_BOUND = 64_000
_MAX_BODY = 4_000_000

_LENGTH_REASONS = frozenset({"length", "max_tokens", "model_length"})
_FILTER_REASONS = frozenset({"content_filter", "refusal", "safety", "sensitive"})


class _Failed(Exception):
    """A try failed. ``begun``: some of the reply had arrived; ``again``: another may succeed."""

    def __init__(self, error: ModelError, *, again: bool = False, begun: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.begun = begun


@dataclass(slots=True)
class _Account:
    """What one try has brought so far."""

    request: ChatRequest
    words: list[str] = field(default_factory=list)
    characters: int = 0
    thought_characters: int = 0
    cost: Cost | None = None
    reason: str = ""
    done: bool = False

    @property
    def begun(self) -> bool:
        return bool(self.characters or self.thought_characters)

    @property
    def room(self) -> int:
        """Characters still taken: a model that never ends is cut as by its own limit."""
        bound = max(_LEAST_BOUND, self.request.max_tokens * _CHARACTERS_PER_TOKEN)
        return max(0, bound - self.characters - self.thought_characters)

    @property
    def full(self) -> bool:
        return not self.room

    def usage(self) -> Usage:
        if self.cost:
            return Usage(
                prompt_tokens=self.cost.prompt_tokens,
                completion_tokens=self.cost.completion_tokens,
                cached_tokens=self.cost.cached_tokens,
            )
        thought = round(self.thought_characters / 3.5)
        return Usage(
            prompt_tokens=estimate_prompt(self.request),
            completion_tokens=estimate_tokens("".join(self.words)) + thought,
            estimated=True,
        )


class OpenAIChatModel:
    """A `ChatModel` over HTTP, through the openai SDK.

    The last two deltas of a reply are `Usage` and `Finished`. Where the provider sends no usage (or
    refuses the field that asks for it) it is estimated and marked. A reply that breaks off yields
    its `Usage` before it raises `ReplyBroken`. Thoughts are counted but are no part of the reply.

    Tries follow one another with backoff and jitter, as long as nothing of the reply, a thought
    included, has arrived: what has arrived was paid for. ``Retry-After`` is honoured up to 30 s;
    beyond that `QuotaExceeded` says when to come back. The SDK's own retries are off, for they
    would not know of our deadline. ``socket`` is a Unix socket to connect to, whatever the address
    says. ``clock``, ``sleep`` and ``jitter`` are passed in for tests.
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
            raise ValueError("no base_url: there is no endpoint to ask")
        key = settings.api_key.get_secret_value()
        self._settings = settings
        self._profile = profile or ModelProfile(
            name=settings.model,
            vision=settings.vision,
            audio=settings.audio,
            grammar=settings.grammar,
            context_tokens=settings.context_tokens,
        )
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._redact = Redactor(key)
        self._host = urlsplit(settings.base_url).netloc
        self._dialect = Dialect()
        self._client = openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=key or "none",
            max_retries=0,
            # No proxy of the environment stands between us and a socket of our own.
            http_client=(
                httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=str(socket)))
                if socket
                else None
            ),
            # Times of a reply are kept below, where one deadline spans tries, thoughts and words.
            timeout=httpx2.Timeout(None, connect=settings.connect_s),
        )

    @property
    def profile(self) -> ModelProfile:
        """What it can do, as the operator says."""
        return self._profile

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """Ask; see `ChatModel.stream`."""
        deltas = self._deltas(request)
        try:
            yield deltas
        finally:
            # Even a cancelled caller must let go of the connection, but not wait for it.
            with anyio.move_on_after(2, shield=True):
                await deltas.aclose()

    async def _deltas(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        deadline = self._clock() + self._settings.total_s
        tries = 0
        while True:
            dialect = self._dialect
            try:
                async with aclosing(self._try(request, dialect, deadline)) as deltas:
                    async for delta in deltas:
                        yield delta
            except _Failed as failed:
                error = failed.error
                if failed.begun:
                    raise error from failed.__cause__
                if isinstance(error, RequestRejected) and (other := dialect.without(str(error))):
                    self._dialect = other
                    continue
                wait = self._backoff(error, tries)
                too_late = self._clock() + wait >= deadline or wait > _LONGEST_BACKOFF_S
                if not failed.again or tries >= self._settings.retries or too_late:
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
        self, request: ChatRequest, dialect: Dialect, deadline: float
    ) -> AsyncGenerator[Delta, None]:
        account = _Account(request)
        thoughts = ThoughtFilter()
        async with aclosing(self._events(request, dialect, account, deadline)) as events:
            try:
                async for event in events:
                    if text := self._take(event, account, thoughts):
                        yield TextDelta(text)
                    if account.full:
                        account.reason = "length"
                    if account.full or account.done:
                        break
                if rest := thoughts.finish():
                    account.words.append(rest)
                    yield TextDelta(rest)
                self._require_end(account)
            except _Failed as failed:
                if failed.begun:
                    yield account.usage()
                raise
            yield account.usage()
            if account.reason in _FILTER_REASONS:
                raise _Failed(
                    ModelRefused(f"the provider's filter stopped the reply ({account.reason})"),
                    begun=account.begun,
                )
            yield Finished("length" if account.reason in _LENGTH_REASONS else "stop")
            if account.done:
                async for _ in events:
                    pass  # a body read to its end leaves its connection for the next request

    def _take(self, event: Event, account: _Account, thoughts: ThoughtFilter) -> str:
        """Note an event; the words of the reply that it brings."""
        match event:
            case Words(words):
                text = thoughts.feed(words)[: account.room]
                account.characters += len(words)
                account.words.append(text)
                return text
            case Thought(words):
                account.thought_characters += len(words)
            case Refusal(words):
                raise _Failed(
                    ModelRefused(f"the model declines: {self._redact(words)}"), begun=account.begun
                )
            case Failure(body):
                raise self._failed_inside(body, account)
            case Stopped(reason):
                account.reason = reason
            case Cost():
                account.cost = event
            case Done():
                account.done = True
        return ""

    def _require_end(self, account: _Account) -> None:
        """A reply must say that it is over; one that merely ceases was cut somewhere on the way."""
        if account.reason == "error" or not (account.reason or account.done):
            if account.begun:
                raise _Failed(ReplyBroken("the reply ended without its end"), begun=True)
            raise _Failed(
                ModelUnreachable(f"{self._host} closed the connection without a reply"), again=True
            )

    def _failed_inside(self, body: Any, account: _Account) -> _Failed:
        error, again = describe(status_of(body), body, "an error without a message", self._redact)
        if account.begun:
            return _Failed(ReplyBroken(f"the reply broke off: {error}"), begun=True)
        return _Failed(error, again=again)

    async def _events(
        self, request: ChatRequest, dialect: Dialect, account: _Account, deadline: float
    ) -> AsyncGenerator[Event, None]:
        """The events of one HTTP response, each awaited no longer than the settings allow."""
        settings = self._settings
        fields = encode_request(request, self._profile, dialect, settings.extra_body)
        begin_by = min(deadline, self._clock() + settings.first_token_s)
        try:
            async with AsyncExitStack() as stack:
                with anyio.fail_after(max(0.0, begin_by - self._clock())):
                    response = await stack.enter_async_context(
                        self._client.chat.completions.with_streaming_response.create(**fields)
                    )
                    kind = response.headers.get("content-type", "").lower()
                    if "event-stream" in kind or not kind:
                        source = read_events(response.iter_bytes())
                    else:
                        source = _whole_reply(kind, await _read_bounded(response.iter_bytes()))
                while True:
                    if account.done:
                        wait = _AFTER_DONE_S
                    elif account.reason:
                        wait = _AFTER_STOP_S
                    elif account.begun:
                        wait = min(settings.between_tokens_s, deadline - self._clock())
                    else:
                        wait = begin_by - self._clock()
                    with anyio.fail_after(max(0.0, wait)):
                        event = await anext(source, None)
                    if event is None:
                        return
                    yield event
        except (TimeoutError, openai.OpenAIError, httpx2.HTTPError, StreamGarbled) as error:
            if account.reason or account.done:
                return  # the words are whole; only the usage was still to come
            raise self._explain(error, account) from error

    def _explain(self, error: Exception, account: _Account) -> _Failed:
        host = self._host
        if isinstance(error, openai.APIStatusError):
            described, again = describe_status(error, self._redact)
            return _Failed(described, again=again)
        if isinstance(error, StreamGarbled):
            what = f"{host} sent what is no reply: {self._redact(str(error))}"
        elif isinstance(error, TimeoutError):
            what = f"{host} was silent for too long"
        elif isinstance(error, openai.APITimeoutError):
            what = f"no connection to {host} within {self._settings.connect_s:g} s"
        else:
            cause = error.__cause__ or error
            what = f"the connection to {host} failed: {self._redact(str(cause) or repr(cause))}"
        if account.begun:
            return _Failed(ReplyBroken(what), begun=True)
        return _Failed(ModelUnreachable(what), again=True)


async def _read_bounded(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > _MAX_BODY:
            raise StreamGarbled(f"a body of more than {_MAX_BODY} bytes")
    return bytes(body)


async def _whole_reply(kind: str, body: bytes) -> AsyncIterator[Event]:
    """The events of an answer that was not streamed although we asked for it."""
    try:
        reply = json.loads(body)
    except ValueError:
        reply = None
    if not isinstance(reply, dict):
        raise _Failed(
            RequestRejected(
                f"the address answers {kind.partition(';')[0]!r} and no stream of a model: "
                "check that base_url is the API's address, most often ending in /v1"
            )
        )
    choices = reply.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict) and "message" in choice:
                choice["delta"] = choice.pop("message")
    for event in parse_chunk(reply):
        yield event
    yield Done()
