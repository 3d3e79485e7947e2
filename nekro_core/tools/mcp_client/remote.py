"""Connects to an MCP server over streamable HTTP, or over the event stream that such servers used
before 2025."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from nekro_core.tools.mcp_client.configuration import McpServerConfig
from nekro_core.tools.mcp_client.depth_limit import limit_depth

_ANSWER_S = 300.0
"""The longest pause within an answer, in seconds. A call has a separate time limit."""


@asynccontextmanager
async def remote_server(
    server: McpServerConfig, *, connect_s: float, max_bytes: int
) -> AsyncIterator[Any]:
    """Open the two message streams of a session. An answer of more than ``max_bytes`` bytes is an
    error. Redirects are not followed, since only this server may get the headers."""

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        del headers, timeout, auth  # The values that the package mcp passes are ignored.
        return httpx2.AsyncClient(
            headers={**server.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(connect_s, read=_ANSWER_S),
            transport=_Bounded(httpx2.AsyncHTTPTransport(retries=0), max_bytes),
            trust_env=False,
        )

    if server.sse:
        async with sse_client(server.url, httpx_client_factory=client) as streams:
            yield streams
        return
    async with (
        client() as http_client,
        streamable_http_client(
            server.url, http_client=http_client, max_sse_event_size=max_bytes
        ) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncBaseTransport):
    """Limits the bytes of each answer. An event stream has no end, so the limit is for each of its
    lines. In both kinds of answers, values that are nested too deeply are cut."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError("the answer is compressed, against the request's header")
        events = "text/event-stream" in response.headers.get("content-type", "")
        kind = _Lines if events else _Whole
        response.headers.pop("content-length", None)
        response.stream = kind(response.stream, self._max_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Lines(httpx2.AsyncByteStream):
    """The answer of the event stream protocol, line by line. Each line is a message."""

    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: list[bytes] = []
        length = 0
        async for chunk in self._inner:
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield _readable(b"".join((*pieces, line))) + b"\n"
                pieces, length = [], 0
            pieces.append(rest)
            length += len(rest)
            if length > self._max_bytes:
                raise httpx2.ReadError("the answer is too long")
        yield b"".join(pieces)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _readable(line: bytes) -> bytes:
    """Limit the depth of the JSON in a line of an event stream. Source: the HTML standard,
    "Server-sent events"."""
    name, colon, value = line.partition(b":")
    return name + colon + limit_depth(value) if name == b"data" else line


class _Whole(httpx2.AsyncByteStream):
    """An answer that is a single message."""

    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: list[bytes] = []
        left = self._max_bytes
        async for chunk in self._inner:
            pieces.append(chunk)
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError("the answer is too long")
        yield limit_depth(b"".join(pieces))

    async def aclose(self) -> None:
        await self._inner.aclose()
