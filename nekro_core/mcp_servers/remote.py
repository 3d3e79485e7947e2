"""A server over streamable HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from nekro_core.mcp_servers.configuration import ServerConfig

_ANSWER_S = 300.0
"""Longest silence within an answer; a call has its own limit."""


@asynccontextmanager
async def remote_server(
    server: ServerConfig, *, connect_s: float, max_bytes: int
) -> AsyncIterator[Any]:
    """The two streams of a session. An answer of more than ``max_bytes`` breaks off. No redirect is
    followed: the headers are for this server alone."""
    timeout = httpx2.Timeout(connect_s, read=_ANSWER_S)
    transport = _Bounded(httpx2.AsyncHTTPTransport(retries=0), max_bytes)
    async with (
        httpx2.AsyncClient(
            headers=dict(server.headers), timeout=timeout, transport=transport, trust_env=False
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=max_bytes
        ) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncBaseTransport):
    """Answers of which no more than so many bytes are read; a stream of events has no end of its
    own and is bounded event by event."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if "text/event-stream" not in response.headers.get("content-type", ""):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedStream(response.stream, self._max_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._left = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.ReadError("the answer is too long")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
