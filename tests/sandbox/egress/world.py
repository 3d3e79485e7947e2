"""Makes a fake box whose egress port is a listener on loopback, and a fake internet whose servers
are on loopback."""

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteStream, SocketStream
from anyio.streams.stapled import MultiListener

from nekro_core.sandbox.egress import Egress, EgressLimits, EgressRules
from nekro_core.sandbox.egress.dial import Dialer
from nekro_core.sandbox.results import Listener
from nekro_core.system.addresses import Address
from tests.sandbox.preview.world import Speak

PUBLIC = "93.184.215.14"
"""A public address. The tests do not connect to it, see `Internet`."""


class LoopbackListener:
    """A `Listener` like the result of `Box.listen`, at a port on loopback."""

    def __init__(self) -> None:
        self.port = 0
        self._listener: MultiListener[SocketStream]

    async def open(self) -> "LoopbackListener":
        self._listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = self._listener.extra(anyio.abc.SocketAttribute.local_port)
        return self

    async def accept(self) -> ByteStream:
        (listener,) = self._listener.listeners
        return await listener.accept()

    async def aclose(self) -> None:
        await self._listener.aclose()


@dataclass
class LoopbackBox:
    """The parts of a box that `Egress` needs."""

    alive: bool = True
    box_id: str = "box"
    environment: Mapping[str, str] = field(default_factory=dict)
    listener: LoopbackListener | None = None
    listened: int = 0

    async def listen(self, port: int) -> Listener:
        assert port == 3128
        self.listened += 1
        self.listener = await LoopbackListener().open()
        return self.listener

    def set_environment(self, variables: Mapping[str, str]) -> None:
        self.environment = dict(variables)

    async def destroy(self) -> None:
        self.alive = False


@dataclass
class Internet:
    """Names, their addresses, and servers at these addresses. A name whose answer changes has
    several lists of addresses, one for each lookup."""

    names: dict[str, list[list[str]]] = field(default_factory=dict)
    servers: dict[tuple[str, int], int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    connected: list[tuple[str, int]] = field(default_factory=list)

    async def resolve(self, name: str) -> list[str]:
        self.asked.append(name)
        answers = self.names.get(name)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address: Address, port: int) -> ByteStream:
        self.connected.append((str(address), port))
        if (str(address), port) not in self.servers:
            raise ConnectionRefusedError
        return await anyio.connect_tcp("127.0.0.1", self.servers[str(address), port])

    @asynccontextmanager
    async def serving(self, address: str, port: int, speak: Speak) -> AsyncIterator[None]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await speak(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            key = str(ipaddress.ip_address(address)), port
            self.servers[key] = server.sockets[0].getsockname()[1]
            yield


@dataclass
class World:
    """A box with egress, and the fake internet."""

    egress: Egress
    internet: Internet
    box: LoopbackBox
    allowed: dict[tuple[str, str], EgressRules]
    now: list[float]

    async def allow(self, *names: str, private: tuple[str, ...] = ()) -> None:
        self.allowed["chat", "default"] = EgressRules.parse(names, private)
        await self.egress.refresh()

    async def connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self.box.listener is not None
        return await asyncio.open_connection("127.0.0.1", self.box.listener.port)

    async def ask(self, request: str | bytes) -> bytes:
        """Send a request from the box, and read the answer to its end."""
        reader, writer = await self.connection()
        try:
            writer.write(request.encode("latin-1") if isinstance(request, str) else request)
            with anyio.fail_after(30):
                return await reader.read()
        finally:
            writer.close()

    async def get(self, url: str, *headers: str) -> bytes:
        return await self.ask("\r\n".join((f"GET {url} HTTP/1.1", "Host: x", *headers, "", "")))

    async def tunnel(
        self, authority: str
    ) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        """Ask for a tunnel. Returns the status and the streams."""
        reader, writer = await self.connection()
        writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("latin-1"))
        with anyio.fail_after(30):
            head = await reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ")[1]), reader, writer

    async def status(self, authority: str) -> int:
        status, _, writer = await self.tunnel(authority)
        writer.close()
        return status


@contextmanager
def nothing_broken() -> Iterator[None]:
    """Check that egress logs no error, whatever a box sends."""
    errors: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            errors.append(record.getMessage())

    collector = Collector(logging.ERROR)
    log = logging.getLogger("nekro_core.sandbox.egress")
    log.addHandler(collector)
    try:
        yield
    finally:
        log.removeHandler(collector)
    assert errors == []


@asynccontextmanager
async def world(
    limits: EgressLimits | None = None, *allowed: str, internet: Internet | None = None
) -> AsyncIterator[World]:
    internet, box, now = internet or Internet(), LoopbackBox(), [0.0]
    rules = {("chat", "default"): EgressRules.parse(allowed)}
    async with Egress.open(
        lambda owner, name: rules.get((owner, name), EgressRules()),
        limits=limits,
        dialer=Dialer(internet.resolve, internet.connect, connect_s=2),
        clock=lambda: now[0],
    ) as egress:
        await egress.attach("chat", "default", box)
        with nothing_broken():
            yield World(egress, internet, box, rules, now)
        if box.listener is not None:
            await box.listener.aclose()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that sends back its input in capital letters."""
    while data := await reader.read(65536):
        writer.write(data.upper())
        await writer.drain()
