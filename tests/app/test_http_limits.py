"""The web server bounds how much memory and how many connections a stranger can occupy."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.requests import HTTPConnection
from uvicorn.server import ServerState

from nekro_core.app.http_limits import LimitedHttpProtocol

Connect = Callable[[], Any]


class Hasty(LimitedHttpProtocol):
    head_s = 0.3
    untaken_s = 0.4


class Narrow(LimitedHttpProtocol):
    most_connections = 3
    head_s = 90.0
    """Longer than any test waits: a full server must make room before this time."""


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the number of bytes of the request's body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    length = str(len(str(size))).encode()
    headers = [(b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": str(size).encode()})


@asynccontextmanager
async def served(
    protocol: type[LimitedHttpProtocol], app: Callable[..., Any] = application
) -> AsyncIterator[Connect]:
    config = uvicorn.Config(app, http=protocol, log_config=None)
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    try:
        yield lambda: anyio.connect_tcp("127.0.0.1", port)
    finally:
        server.close()


async def answer(stream: SocketStream) -> bytes:
    """Read until the server closes the connection or is silent for a moment."""
    said = b""
    with anyio.move_on_after(30):
        try:
            while not said.endswith(b"\r\n\r\n") and b"\r\n\r\n" not in said:
                said += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    return said


async def is_closed(stream: SocketStream) -> bool:
    with anyio.fail_after(30):
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("beginning", "again"),
    [
        (b"GET /", b"a"),
        (HEAD + b"X-", b"a"),
        (HEAD + b"X: ", b"a"),
        (HEAD, b"X: y\r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"a"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    ],
    ids=["address", "name", "value", "headers", "chunk extension", "trailer", "trailers"],
)
async def test_an_endless_head_or_trailer_is_refused(beginning: bytes, again: bytes) -> None:
    async with served(LimitedHttpProtocol) as connect, await connect() as stream:
        sent = 0
        with anyio.fail_after(30):
            try:
                await stream.send(beginning)
                while sent < 32:
                    await stream.send(again * 65_536)
                    sent += 1
            except anyio.BrokenResourceError:
                pass
        assert sent < 32, "the server must refuse before the client has sent all"


@pytest.mark.parametrize("beginning", [b"", b"GET / HTTP/1.1\r\nHost: "])
async def test_a_connection_that_sends_no_whole_head_in_time_is_closed(beginning: bytes) -> None:
    async with served(Hasty) as connect, await connect() as stream:
        if beginning:
            await stream.send(beginning)
        assert await is_closed(stream)


async def test_a_connection_beyond_the_limit_is_closed_at_once() -> None:
    begun = 0

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        nonlocal begun
        begun += 1
        await application(scope, receive, send)

    async with served(Narrow, counted) as connect:
        first = [await connect() for _ in range(3)]
        for stream in first:
            await stream.send(HEAD + b"Content-Length: 9\r\n\r\n")
        with anyio.fail_after(30):
            while begun < 3:  # A connection without a request would be closed in its place.
                await anyio.sleep(0.005)
        async with await connect() as one_more:
            assert await is_closed(one_more)
        for stream in first:
            await stream.send(b"123456789")
            assert (await answer(stream)).endswith(b"9")
            await stream.aclose()


@pytest.mark.parametrize("beginning", [b"", b"GET /", HEAD + b"Content-Length: 0\r\n\r\n"])
async def test_idle_connections_are_closed_to_make_room_for_new_ones(beginning: bytes) -> None:
    async with served(Narrow) as connect:
        held = [await connect() for _ in range(3)]
        for stream in held:
            await stream.send(beginning or b"\r\n")
            if beginning.startswith(HEAD):
                assert (await answer(stream)).endswith(b"0")
        with anyio.fail_after(30):  # this is far sooner than the time that a head may take
            for _ in range(6):
                async with await connect() as owner:
                    await owner.send(HEAD + b"Content-Length: 2\r\n\r\nab")
                    assert (await answer(owner)).endswith(b"\r\n\r\n2")
            # The server has closed the connection that was silent longest.
            assert await is_closed(held[0])
        for stream in held:
            await stream.aclose()


async def answers_early(scope: Any, receive: Any, send: Any) -> None:
    """Answers without reading the body."""
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    ("head", "then"),
    [
        (HEAD + b"Content-Length: 1000000000\r\n\r\n", b"a"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b"\r\n"),
    ],
)
async def test_a_client_that_keeps_sending_after_the_answer_is_disconnected(
    head: bytes, then: bytes
) -> None:
    # uvicorn closes a connection after 5 s without a request, but this limit no longer applies once
    # any byte has arrived.
    async with served(Hasty, answers_early) as connect, await connect() as stream:
        await stream.send(head)
        assert b" 401 " in await answer(stream)
        with anyio.fail_after(30):  # nothing else would close the connection
            try:
                while True:
                    await stream.send(then)
                    with anyio.move_on_after(0.05):
                        await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass


async def test_a_large_body_and_a_second_request_are_accepted() -> None:
    body = b"b" * 3_000_000
    chunked = b"".join(b"400\r\n" + b"c" * 1024 + b"\r\n" for _ in range(1000)) + b"0\r\n\r\n"
    async with served(Hasty) as connect, await connect() as stream:
        await stream.send(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await answer(stream)).endswith(b"\r\n\r\n3000000")
        await anyio.sleep(Hasty.head_s * 1.5)  # this limit must not apply between two requests
        await stream.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked)
        assert (await answer(stream)).endswith(b"\r\n\r\n1024000")


async def test_a_client_that_does_not_read_its_answer_is_disconnected() -> None:
    lost = asyncio.Event()

    class Watched(Hasty):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async def large(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"20000000"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(20_000_000)})

    async with served(Watched, large) as connect, await connect() as deaf:
        await deaf.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with anyio.fail_after(30):
            await lost.wait()


async def reads_cookies(scope: Any, receive: Any, send: Any) -> None:
    """Parses the cookies before any token is checked, as NoneBot's driver and others do."""
    shown = str(HTTPConnection(scope).cookies).encode()
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": shown})
        await send({"type": "websocket.close"})
        return
    headers = [(b"content-length", str(len(shown)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": shown})


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.mark.parametrize("head", [HEAD, UPGRADE])
@pytest.mark.parametrize("many", [b"\\" * 60_000, b'\\"' * 30_000])
async def test_a_hostile_cookie_is_parsed_quickly(head: bytes, many: bytes) -> None:
    async with served(LimitedHttpProtocol, reads_cookies) as connect, await connect() as stream:
        began = time.thread_time()  # the server runs in this thread
        await stream.send(head + b'Cookie: a=1; b="' + many + b'"; c="x\\054y"; d=2\r\n\r\n')
        said = await answer(stream)
        with anyio.fail_after(60):
            while b"'d': '2'" not in said:
                said += await stream.receive()
        assert time.thread_time() - began < 2
        assert b"'a': '1'" in said
        assert b"'d': '2'" in said


async def test_a_quoted_cookie_reaches_the_application() -> None:
    async with served(LimitedHttpProtocol, reads_cookies) as connect, await connect() as stream:
        await stream.send(HEAD + b'Cookie: c="x\\054y"\r\n\r\n')
        assert b"'c': 'x,y'" in await answer(stream)
