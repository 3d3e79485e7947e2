"""Asks an OpenAI-compatible model over HTTP: one request, and the events of its response.

It uses only httpx. The openai SDK takes half a second of processor time to import and 40 MB of
memory, and the bot used only this one request of it. See docs/decisions/0031.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx

from nekro_core import __version__
from nekro_core.llm.events import (
    DoneEvent,
    Event,
    StreamDecodeError,
    UsageEvent,
    parse_chunk,
    read_events,
)
from nekro_core.llm.failures import Redactor, model_error, parse_retry_after
from nekro_core.llm.function_calls import FunctionCallAssembler
from nekro_core.llm.model import (
    ChatRequest,
    ModelError,
    ModelUnreachable,
    ReplyBroken,
    RequestRejected,
    RequestUsage,
)
from nekro_core.llm.settings import LLMSettings
from nekro_core.llm.tokens import estimate_prompt, estimate_tokens
from nekro_core.system.errors import NekroError

_CHARACTERS_PER_TOKEN = 16
_LEAST_BOUND = 64_000


class AttemptFailed(NekroError):
    """An attempt failed. ``begun``: part of the reply had arrived. ``again``: another may
    succeed."""

    def __init__(self, error: ModelError, *, again: bool = False, begun: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.begun = begun


@dataclass(slots=True)
class RequestAttempt:
    """What has arrived in one attempt so far. ``reason`` is the provider's word for why the reply
    ended; ``done`` says whether the end mark has arrived."""

    request: ChatRequest
    words: list[str] = field(default_factory=list)
    calls: FunctionCallAssembler = field(default_factory=FunctionCallAssembler)
    call_characters: int = 0
    characters: int = 0
    thought_characters: int = 0
    cost: UsageEvent | None = None
    reason: str = ""
    done: bool = False

    @property
    def begun(self) -> bool:
        """Whether any paid part of the reply has arrived."""
        return bool(self.characters or self.thought_characters or self.call_characters)

    @property
    def room(self) -> int:
        """Characters that may still arrive. A reply that never ends is cut as by the model's own
        limit."""
        bound = max(_LEAST_BOUND, self.request.max_tokens * _CHARACTERS_PER_TOKEN)
        taken = self.characters + self.thought_characters + self.call_characters
        return max(0, bound - taken)

    def usage(self) -> RequestUsage:
        """The tokens as the provider counted them, or an estimate."""
        if self.cost:
            return RequestUsage(
                prompt_tokens=self.cost.prompt_tokens,
                completion_tokens=self.cost.completion_tokens,
                cached_tokens=self.cost.cached_tokens,
            )
        unseen = round((self.thought_characters + self.call_characters) / 3.5)
        return RequestUsage(
            prompt_tokens=estimate_prompt(self.request),
            completion_tokens=estimate_tokens("".join(self.words)) + unseen,
            estimated=True,
        )


_AFTER_STOP_S = 5.0
"""Seconds to wait for the usage after the last text."""
_AFTER_DONE_S = 0.5
"""Seconds to wait for the end of the body after the end mark."""
_MAX_BODY = 4_000_000

_ONCE = httpx.Limits(max_keepalive_connections=0)
"""For a Unix socket, connections are not reused: llama.cpp's server sometimes closes an idle one
just when it is used again (once in 50 requests on a busy machine), and a new one costs nothing."""


_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=5.0)


_UNREACHABLE = (httpx.HTTPError, httpx.InvalidURL)


class _Declined(NekroError):
    """An answer with an error status. ``body`` is its field ``error``, else its JSON, else its
    text."""

    def __init__(self, response: httpx.Response, text: bytes) -> None:
        words = text.decode(errors="replace").strip()
        try:
            body = json.loads(words)
        except (ValueError, RecursionError):
            body = None
        self.status = response.status_code
        self.retry_after_s = parse_retry_after(response.headers.get("retry-after"))
        self.body = words if body is None else body
        if isinstance(body, dict):
            self.body = body.get("error", body)
        super().__init__(words or f"status {self.status} without a word")


class ModelEndpoint:
    """A client for one address, or for a Unix ``socket``."""

    def __init__(
        self,
        settings: LLMSettings,
        redact: Redactor,
        socket: Path | None,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._redact = redact
        self._clock = clock
        self._host = urlsplit(settings.base_url).netloc
        self._address = f"{settings.base_url.rstrip('/')}/chat/completions"
        self._client = httpx.AsyncClient(
            headers={
                "Authorization": f"Bearer {settings.api_key.get_secret_value() or 'none'}",
                "Accept": "application/json",
                "User-Agent": f"nekro-core/{__version__}",
            },
            # The embedded model's socket is reached without the environment's proxy.
            transport=httpx.AsyncHTTPTransport(uds=str(socket), limits=_ONCE) if socket else None,
            proxy=settings.proxy or None,
            limits=_LIMITS,
            follow_redirects=socket is None,
            # The time limits of a reply are checked below: one deadline covers attempts, thoughts
            # and text.
            timeout=httpx.Timeout(None, connect=settings.connect_s),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def events(
        self, fields: dict[str, Any], attempt: RequestAttempt, deadline: float
    ) -> AsyncGenerator[Event, None]:
        """The events of one response. Each is awaited no longer than the settings allow.

        The caller updates ``attempt``, which says how much of the reply has arrived. An error after
        the end of the reply is ignored, since its text is complete. Raises `AttemptFailed`.
        """
        begin_by = min(deadline, self._clock() + self._settings.first_token_s)
        try:
            async with AsyncExitStack() as stack:
                with anyio.fail_after(max(0.0, begin_by - self._clock())):
                    response = await self._post(fields)
                    stack.push_async_callback(response.aclose)
                    kind = response.headers.get("content-type", "").lower()
                    if "event-stream" in kind or not kind:
                        source = read_events(response.aiter_bytes())
                    else:
                        source = _whole_reply(kind, await _read_bounded(response.aiter_bytes()))
                while True:
                    with anyio.fail_after(max(0.0, self._patience(attempt, begin_by, deadline))):
                        event = await anext(source, None)
                    if event is None:
                        return
                    yield event
        except (TimeoutError, _Declined, *_UNREACHABLE, StreamDecodeError) as error:
            if attempt.reason or attempt.done:
                return
            raise self._explain(error, attempt) from error

    async def _post(self, fields: dict[str, Any]) -> httpx.Response:
        """Send a request and return the response before its body is read."""
        request = self._client.build_request("POST", self._address, json=fields)
        response = await self._client.send(request, stream=True)
        if response.is_success:
            return response
        try:
            raise _Declined(response, await _read_bounded(response.aiter_bytes()))
        finally:
            await response.aclose()

    def _patience(self, attempt: RequestAttempt, begin_by: float, deadline: float) -> float:
        """Seconds to wait for the next event."""
        if attempt.done:
            return _AFTER_DONE_S
        if attempt.reason:
            return _AFTER_STOP_S
        if attempt.begun:
            return min(self._settings.between_tokens_s, deadline - self._clock())
        return begin_by - self._clock()

    def _explain(self, error: Exception, attempt: RequestAttempt) -> AttemptFailed:
        host = self._host
        if isinstance(error, _Declined):
            described, again = model_error(
                error.status,
                error.body,
                str(error),
                self._redact,
                retry_after_s=error.retry_after_s,
            )
            return AttemptFailed(described, again=again)
        if isinstance(error, StreamDecodeError):
            what = f"{host} sent what is no reply: {self._redact(str(error))}"
        elif isinstance(error, TimeoutError):
            what = f"{host} was silent for too long"
        elif isinstance(error, httpx.TimeoutException):
            what = f"no connection to {host} within {self._settings.connect_s:g} s"
        else:
            cause = error.__cause__ or error
            what = f"the connection to {host} failed: {self._redact(str(cause) or repr(cause))}"
        if attempt.begun:
            return AttemptFailed(ReplyBroken(what), begun=True)
        return AttemptFailed(ModelUnreachable(what), again=True)


async def _read_bounded(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > _MAX_BODY:
            raise StreamDecodeError(f"a body of more than {_MAX_BODY} bytes")
    return bytes(body)


async def _whole_reply(kind: str, body: bytes) -> AsyncIterator[Event]:
    """The events of an answer that was not streamed although the request asked for a stream."""
    try:
        reply = json.loads(body)
    except ValueError:
        reply = None
    if not isinstance(reply, dict):
        raise AttemptFailed(
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
    yield DoneEvent()
