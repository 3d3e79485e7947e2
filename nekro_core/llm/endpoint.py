"""Sends one request to a model over HTTP, and reads the events of its response.

The module uses httpx, and not the SDK of a provider: see docs/decisions/0031 and 0043.
"""

import json
import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import certifi
import httpx
import msgspec
from loguru import logger

from nekro_core import __version__
from nekro_core.llm.events import (
    DoneEvent,
    Event,
    StreamDecodeError,
    UsageEvent,
    read_events,
)
from nekro_core.llm.failures import (
    Redactor,
    model_error,
    parse_retry_after,
    retry_delay_of,
)
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
from nekro_core.llm.wire_format import WireFormat
from nekro_core.system.errors import NekroError
from nekro_core.system.proxies import environment_proxy

_CHARACTERS_PER_TOKEN = 16
_LEAST_BOUND = 64_000


class AttemptFailed(NekroError):
    """An attempt failed. If ``begun`` is true, part of the reply has arrived. If ``again`` is true,
    another attempt may succeed."""

    def __init__(self, error: ModelError, *, again: bool = False, begun: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.begun = begun


@dataclass(slots=True)
class RequestAttempt:
    """The parts of a reply that one attempt has received so far. ``reason`` is the provider's
    ``finish_reason``. ``done`` is True if the end mark has arrived."""

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
        """True if any part of the reply has arrived. The provider charges for such a part."""
        return bool(self.characters or self.thought_characters or self.call_characters)

    @property
    def room(self) -> int:
        """Return the number of characters that may still arrive. At 0 the reply is cut off, as if
        the model had reached its limit of tokens."""
        bound = max(_LEAST_BOUND, self.request.max_tokens * _CHARACTERS_PER_TOKEN)
        taken = self.characters + self.thought_characters + self.call_characters
        return max(0, bound - taken)

    def usage(self) -> RequestUsage:
        """Return the tokens as the provider counted them, or an estimate."""
        if self.cost:
            return RequestUsage(
                prompt_tokens=self.cost.prompt_tokens,
                completion_tokens=self.cost.completion_tokens,
                cached_tokens=self.cost.cached_tokens,
                cache_written_tokens=self.cost.cache_written_tokens,
            )
        unseen = round((self.thought_characters + self.call_characters) / 3.5)
        return RequestUsage(
            prompt_tokens=estimate_prompt(self.request),
            completion_tokens=estimate_tokens("".join(self.words)) + unseen,
            estimated=True,
        )


_AFTER_STOP_S = 5.0
"""Seconds to wait for the usage after the end of the reply's text."""
_AFTER_DONE_S = 0.5
"""Seconds to wait after the end mark for the end of the body."""
_MAX_BODY = 4_000_000
_MAX_PIECE = 1_000_000
"""Maximum number of bytes that are decompressed at once. httpx would decompress everything that it
has read at once, and 60 kB can become 60 MB."""

_ONCE = httpx.Limits(max_keepalive_connections=0)
"""The limits for a Unix socket: each request opens a new connection. llama.cpp's server sometimes
closes an idle connection at the moment in which a request uses it (once in 50 requests on a busy
machine), and opening a new connection takes almost no time."""


_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=5.0)
_JSON = {"Content-Type": "application/json"}
_UNREACHABLE = (httpx.HTTPError, httpx.InvalidURL)


class _Declined(NekroError):
    """An answer with an error status. ``body`` is the field ``error`` of its JSON. Without that
    field, ``body`` is the whole JSON. If the answer is not JSON, ``body`` is its text."""

    def __init__(self, response: httpx.Response, text: bytes) -> None:
        words = text.decode(errors="replace").strip()
        try:
            body = json.loads(words)
        except (ValueError, RecursionError):
            body = None
        self.status = response.status_code
        self.retry_after_s = parse_retry_after(response.headers.get("retry-after"))
        if isinstance(body, list) and body:
            body = body[0]  # Gemini's compatible endpoint puts its errors into a list
        self.body = words if body is None else body
        if isinstance(body, dict):
            self.body = body.get("error", body)
        if self.retry_after_s is None:
            self.retry_after_s = retry_delay_of(self.body)
        super().__init__(words or f"status {self.status} without a word")


class ModelEndpoint:
    """A client for the endpoint in the settings, with the protocol ``wire``. With ``socket``, it
    connects to that Unix socket."""

    def __init__(
        self,
        settings: LLMSettings,
        redact: Redactor,
        socket: Path | None,
        clock: Callable[[], float],
        wire: WireFormat,
    ) -> None:
        self._settings = settings
        self._wire = wire
        self._redact = redact
        self._clock = clock
        self._host = urlsplit(settings.base_url).netloc
        self._address = f"{settings.base_url.rstrip('/')}/{wire.path}"
        fields = _fields(settings, wire)
        # A Unix socket is on this machine, so the proxy of the environment is not used for it.
        self._client = (
            _client(settings, fields) if socket is None else _socket_client(fields, socket)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def events(
        self, fields: dict[str, Any], attempt: RequestAttempt, deadline: float
    ) -> AsyncGenerator[Event, None]:
        """Send a request with the JSON body ``fields`` and yield the events of its response.

        ``deadline`` is the time of the clock at which all attempts of the request must have ended.
        The settings limit the wait for each event. The limit depends on how much of the reply has
        arrived, so the caller must store each event in ``attempt``. An error after the end of the
        reply's text is ignored, because the text is complete. Raises `AttemptFailed`.
        """
        begin_by = min(deadline, self._clock() + self._settings.first_token_s)
        try:
            async with AsyncExitStack() as stack:
                with anyio.fail_after(max(0.0, begin_by - self._clock())):
                    response = await self._post(fields)
                    stack.push_async_callback(response.aclose)
                    kind = response.headers.get("content-type", "").lower()
                    if "event-stream" in kind or not kind:
                        source = read_events(_unpacked(response), self._wire.reader())
                    else:
                        body = await _read_bounded(_unpacked(response))
                        source = _whole_reply(kind, body, self._wire)
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

    async def get(self, path: str, limit_s: float) -> tuple[int, Any]:
        """Read a JSON document of the API, such as ``models``, within ``limit_s`` seconds.

        Returns:
            The status, and the document. The document is None if the answer is not JSON.

        Raises:
            ModelUnreachable: There was no complete answer. The text contains no secret.
        """
        address = f"{self._settings.base_url.rstrip('/')}/{path}"
        try:
            with anyio.fail_after(limit_s):
                request = self._client.build_request("GET", address)
                response = await self._client.send(request, stream=True)
                try:
                    body = await _read_bounded(_unpacked(response))
                finally:
                    await response.aclose()
        except (TimeoutError, *_UNREACHABLE, StreamDecodeError) as error:
            raise self._explain(error, RequestAttempt(ChatRequest(messages=()))).error from error
        try:
            return response.status_code, json.loads(body)
        except (ValueError, RecursionError):
            return response.status_code, None

    async def _post(self, fields: dict[str, Any]) -> httpx.Response:
        """Send a request and return the response before its body is read."""
        # For a prompt of 15 kB, this takes 15 µs, and httpx's ``json=`` 115.
        body = msgspec.json.encode(fields)
        request = self._client.build_request("POST", self._address, content=body, headers=_JSON)
        response = await self._client.send(request, stream=True)
        if response.is_success:
            return response
        try:
            raise _Declined(response, await _read_bounded(_unpacked(response)))
        finally:
            await response.aclose()

    def _patience(self, attempt: RequestAttempt, begin_by: float, deadline: float) -> float:
        """Return the seconds to wait for the next event. ``begin_by`` and ``deadline`` are the
        times of the clock by which the reply must have begun and ended."""
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


def _client(settings: LLMSettings, fields: dict[str, Any]) -> httpx.AsyncClient:
    """Make the HTTP client for an address, which may be behind a proxy and may redirect."""
    make = partial(
        httpx.AsyncClient,
        **fields,
        verify=trusted_certificates(),
        limits=_LIMITS,
        follow_redirects=True,
    )
    try:
        return make(proxy=settings.proxy or None)
    except httpx.InvalidURL as error:
        if settings.proxy:
            raise
        # Entries such as "fd00::/8" or "[::1]" are not an error, because other programs accept
        # them. So evaluate NO_PROXY without httpx.
        logger.warning("NO_PROXY has an entry that httpx cannot read: {}", error)
        return make(proxy=environment_proxy(settings.base_url), trust_env=False)


def _socket_client(fields: dict[str, Any], socket: Path) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(socket), limits=_ONCE)
    return httpx.AsyncClient(**fields, transport=transport)


def trusted_certificates() -> ssl.SSLContext:
    """Return a TLS context that trusts the system's certificates, to which operators may have added
    certificates of their own networks. If the system has none, certifi's certificates are trusted.
    (httpx by default would always trust certifi's certificates instead of the system's.)"""
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return httpx.create_ssl_context()
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    return context


def _fields(settings: LLMSettings, wire: WireFormat) -> dict[str, Any]:
    return {
        "headers": {
            **wire.headers(settings.api_key.get_secret_value()),
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"nekro-core/{__version__}",
        },
        # httpx limits only the time for connecting. `ModelEndpoint.events` limits all later waits,
        # because one deadline applies to all attempts of a request together.
        "timeout": httpx.Timeout(None, connect=settings.connect_s),
    }


async def _unpacked(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body in pieces of bounded size. A compressed body is decompressed."""
    packed = response.headers.get("content-encoding", "").lower() in ("gzip", "deflate")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS + 32)  # reads gzip and deflate
    async for chunk in response.aiter_raw():
        if not packed:
            yield chunk
            continue
        rest, more = chunk, True
        while more and not unpacker.eof:
            try:
                piece = unpacker.decompress(rest, _MAX_PIECE)
            except zlib.error as error:
                raise StreamDecodeError(f"a body that cannot be decompressed: {error}") from error
            rest = unpacker.unconsumed_tail
            more = bool(rest) or len(piece) == _MAX_PIECE
            if piece:
                yield piece


async def _read_bounded(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > _MAX_BODY:
            raise StreamDecodeError(f"a body of more than {_MAX_BODY} bytes")
    return bytes(body)


async def _whole_reply(kind: str, body: bytes, wire: WireFormat) -> AsyncIterator[Event]:
    """Yield the events of an answer that is one JSON object instead of the requested stream."""
    try:
        reply = json.loads(body)
    except ValueError:
        reply = None
    if not isinstance(reply, dict):
        raise AttemptFailed(
            RequestRejected(
                f"the address answers {kind.partition(';')[0]!r} instead of a model's stream: "
                "check that base_url is the API's address, which usually ends in /v1"
            )
        )
    for event in wire.whole(reply):
        yield event
    yield DoneEvent()
