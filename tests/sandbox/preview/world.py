"""Runs a web server with previews and the bot's page, and fake boxes whose servers are on
loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
import uvicorn
from anyio.abc import ByteStream
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from nekro_core.app.http_limits import LimitedHttpProtocol
from nekro_core.chat.catalogue import Catalogue
from nekro_core.sandbox.box import BoxConnectionError, BoxLost
from nekro_core.sandbox.preview import PreviewRegistry, PreviewSettings, PreviewTargetState
from nekro_core.sandbox.preview.front import PreviewFront

Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""A handler for one connection to a server in a box."""


class LoopbackBox:
    """A target for previews whose ports are servers of the test."""

    def __init__(self) -> None:
        self.preview_state = PreviewTargetState.RUNNING
        self.ports: dict[int, int] = {}
        self.connections = 0

    async def connect(self, port: int) -> ByteStream:
        if self.preview_state is not PreviewTargetState.RUNNING:
            raise BoxLost("the box sleeps")
        if port not in self.ports:
            raise BoxConnectionError(f"nobody listens at {port}")
        self.connections += 1
        return await anyio.connect_tcp("127.0.0.1", self.ports[port])

    @asynccontextmanager
    async def serving(self, port: int, speak: Speak) -> AsyncIterator[None]:
        """While the context lasts, ``speak`` answers connections to this port of the box."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await speak(reader, writer)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            self.ports[port] = server.sockets[0].getsockname()[1]
            yield
            del self.ports[port]


@dataclass
class Bot:
    """The bot's own application. It records the requests that reach it."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        self.seen.append((host.decode("latin-1"), scope["path"]))
        headers = [(b"content-length", b"7"), (b"set-cookie", b"nekro_session=1; HttpOnly")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"the bot"})


class QuietServer(uvicorn.Server):
    """A server that leaves the signal handlers to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class World:
    """A running web server: its port, the bot's application, the previews and a box."""

    port: int
    bot: Bot
    preview: PreviewRegistry
    box: LoopbackBox

    def name(self, port: int = 8000) -> str:
        """The host name of the preview of this port of the box."""
        return self.preview.open(self.box, port).split("/")[2]

    async def ask(self, request: str | bytes, *, then: bytes = b"") -> bytes:
        """Send these bytes, and read until the server closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request.encode() if isinstance(request, str) else request)
            if then:
                await asyncio.sleep(0.05)
                writer.write(then)
            with anyio.fail_after(30):
                return await reader.read()
        finally:
            writer.close()

    async def get(self, host: str, path: str = "/", *headers: str, method: str = "GET") -> bytes:
        """Send a plain request with this ``Host``. Returns the raw answer."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "Connection: close"]
        return await self.ask("\r\n".join((*lines, "", "")))


@asynccontextmanager
async def world(settings: PreviewSettings | None = None) -> AsyncIterator[World]:
    bot, box = Bot(), LoopbackBox()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        preview = PreviewRegistry(settings or PreviewSettings(), port)
        front = PreviewFront(bot, preview, Catalogue.load().say)
        errors: list[BaseException] = []

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await front(scope, receive, send)
            except (ClientDisconnected, asyncio.CancelledError):
                # these are the web server's own errors for a closed connection and for its end
                raise
            except BaseException as error:
                errors.append(error)
                raise

        config = uvicorn.Config(
            watched, log_level="critical", lifespan="off", http=LimitedHttpProtocol
        )
        server = QuietServer(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            while not server.started:
                await anyio.sleep(0.005)
            try:
                yield World(port, bot, preview, box)
            finally:
                server.should_exit = True
        assert errors == [], "a box or a visitor must not cause an error in the bot"


def says(head: str, body: bytes = b"") -> Speak:
    """A server that answers every request with this answer and closes the connection."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
        await writer.drain()

    return speak


@dataclass
class Recorder:
    """A server that records each request's head and body, and answers ``ok``. The headers
    ``Transfer-Encoding`` and ``Content-Length`` say where the body ends."""

    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            body = b""
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
        else:
            _, _, rest = lower.partition(b"content-length: ")
            body = await reader.readexactly(int(rest.split(b"\r\n")[0] or 0))
        self.bodies.append(body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    def headers(self, index: int = -1) -> dict[str, str]:
        lines = self.heads[index].decode("latin-1").split("\r\n")[1:]
        return dict(line.lower().split(": ", 1) for line in lines if line)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])
