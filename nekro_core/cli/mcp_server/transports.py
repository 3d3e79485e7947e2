"""Serves MCP clients: over stdin and stdout as a child process, or over HTTP on loopback."""

import hmac
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from nekro_core.app.http_limits import LimitedHttpProtocol

PATH = "/mcp"
MAX_BODY = 64 * 1024 * 1024
"""Maximum size of a message in bytes. A file of 32 MiB takes 43 MB in base64."""
_READ_BYTES = 65_536
_GRACEFUL_S = 1


async def serve_stdio(server: Server[Any], descriptor: int = 0) -> None:
    """Serve one client over stdin and stdout until the client closes the connection. Until then,
    all other output of this process goes to stderr."""
    # By default, the package ``mcp`` reads stdin in a thread. This thread would delay the end of
    # the process until a line arrives.
    lines = cast("anyio.AsyncFile[str]", _lines(descriptor))
    async with stdio_server(stdin=lines) as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


async def serve_http(
    server: Server[Any],
    listener: socket.socket,
    token: str,
    watch: Callable[[uvicorn.Server], None],
) -> None:
    """Serve many clients over HTTP at `PATH`. ``watch`` gets uvicorn's server, which runs until its
    ``should_exit`` is set. ``listener`` must be bound to loopback. Each request needs the token.
    Its ``Host`` header must have this server's address, so that DNS rebinding does not work. Its
    ``Origin`` must not be another site."""
    port = listener.getsockname()[1]
    names = [f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        transport_security=TransportSecuritySettings(
            allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
        ),
    )
    config = uvicorn.Config(
        _TokenRequired(app, token),
        log_config=None,
        access_log=False,
        http=LimitedHttpProtocol,
        proxy_headers=False,  # there is no proxy on loopback
        timeout_graceful_shutdown=_GRACEFUL_S,
    )
    runs = _Server(config)
    watch(runs)
    await runs.serve([listener])


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers, because `serve_tools` handles the signals."""
        yield


class _TokenRequired:
    """Refuses requests without the token, and passes all other requests to ``app``."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] == "websocket":
            await receive()  # the connect event must be read before it can be refused
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http" and not self._is_ours(Headers(scope=scope)):
            message = "send 'Authorization: Bearer <token>'; it lies in secrets/mcp_token"
            refusal = JSONResponse({"error": message}, 401, headers={"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        offered = f"{scheme.lower()} {token.strip()}".encode("utf-8", "surrogatepass")
        return hmac.compare_digest(offered, self._expected)


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """Yield each line when it arrives. Stop at the end of the input, or when a line is longer than
    `MAX_BODY`."""
    pieces: list[bytes] = []
    length = 0
    while True:
        with suppress(PermissionError):  # raised for a regular file, which is always readable
            await anyio.wait_readable(descriptor)
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            return
        *whole, rest = data.split(b"\n")
        for line in whole:
            yield b"".join((*pieces, line)).decode(errors="replace")
            pieces.clear()
            length = 0
        pieces.append(rest)
        length += len(rest)
        if length > MAX_BODY:
            return
