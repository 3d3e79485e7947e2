"""Fake endpoints of models that fail early: while connecting, in the TLS handshake, or in the head
of the HTTP answer. `ScriptedModelServer` fails later, in the body.

Sources: RFC 9112 (HTTP/1.1) for what a complete answer is, RFC 8446 (TLS 1.3) for the handshake.
"""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream


@asynccontextmanager
async def closed_port() -> AsyncIterator[str]:
    """An address at which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"


@asynccontextmanager
async def full_queue() -> AsyncIterator[str]:
    """An address that accepts no more connections: its queue is full, so a client waits."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        try:
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                with suppress(BlockingIOError):
                    client.connect(listener.getsockname())
                waiting.append(client)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            for client in waiting:
                client.close()


@asynccontextmanager
async def sends_then(sent: bytes, *, then: str, scheme: str = "http") -> AsyncIterator[str]:
    """An address that answers each request with these bytes. ``then`` is ``close`` or
    ``silence``."""

    async def answer(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                await stream.receive()
                if sent:
                    await stream.send(sent)
                while then == "silence":
                    await stream.receive()

    async with _listening(answer) as port:
        yield f"{scheme}://127.0.0.1:{port}/v1"


@asynccontextmanager
async def untrusted_certificate(folder: Path) -> AsyncIterator[str]:
    """An address with a certificate that nobody trusts."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    await anyio.run_process([*make, "-keyout", str(key), "-out", str(certificate)])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def answer(stream: SocketStream) -> None:
        async with stream:
            with suppress(ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream):
                await TLSStream.wrap(stream, ssl_context=context)

    async with _listening(answer) as port:
        yield f"https://127.0.0.1:{port}/v1"


@asynccontextmanager
async def _listening(answer) -> AsyncIterator[int]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()
