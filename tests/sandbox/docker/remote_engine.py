"""Makes the engine reachable like one on another machine: over TCP or TLS, and with
interruptions."""

import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.abc
import anyio.streams.tls


class FarEngine:
    """Relays connections from a port on loopback to an engine's socket."""

    def __init__(self, socket: str) -> None:
        self.address = ""
        self._socket = socket
        self._open: set[anyio.CancelScope] = set()
        self.reachable = True

    def disappear(self) -> None:
        """End every connection, and close new ones at once."""
        self.reachable = False
        for scope in self._open:
            scope.cancel()

    async def quiet(self) -> None:
        """Wait until all connections are closed."""
        while self._open:
            await anyio.sleep(0.01)

    async def carry(self, near: anyio.abc.ByteStream) -> None:
        if not self.reachable:
            return
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                async with (
                    await anyio.connect_unix(self._socket) as far,
                    anyio.create_task_group() as tasks,
                ):
                    tasks.start_soon(_pump, near, far)
                    tasks.start_soon(_pump, far, near)
            finally:
                self._open.discard(scope)


async def _pump(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
    with contextlib.suppress(
        anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError
    ):
        async for piece in source:
            await target.send(piece)
    try:
        await target.send_eof()
    except (NotImplementedError, OSError, anyio.ClosedResourceError):
        await anyio.aclose_forcefully(target)  # TLS cannot close one direction only


@contextlib.asynccontextmanager
async def far_engine(host: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[FarEngine]:
    """Relay a free port to the engine at a ``unix://`` address."""
    engine = FarEngine(host.removeprefix("unix://"))
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    engine.address = f"tcp://127.0.0.1:{port}"

    async def take(stream: anyio.abc.ByteStream) -> None:
        # The client notices an error here, since its connection is closed.
        with contextlib.suppress(Exception):
            async with stream:
                if tls is not None:
                    stream = await anyio.streams.tls.TLSStream.wrap(
                        stream, server_side=True, ssl_context=tls, standard_compatible=False
                    )
                await engine.carry(stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, take)
        try:
            yield engine
        finally:
            # anyio fails with InvalidStateError if it is cancelled just when bytes arrive from a
            # Unix socket. So finished connections get time to end by themselves.
            with anyio.move_on_after(2, shield=True):
                await engine.quiet()
            tasks.cancel_scope.cancel()


def make_certificates(folder: Path) -> ssl.SSLContext:
    """Make a certificate authority, and a key for each side, with the file names of the ``docker``
    client. Returns the server's context, which refuses clients without a certificate."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl("req", "-x509", *new, "-subj", "/CN=ca", "-keyout", "ca-key.pem", "-out", "ca.pem")
    for name, extra in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "")):
        files = {"server": ("server.pem", "server-key.pem"), "client": ("cert.pem", "key.pem")}
        certificate, key = files[name]
        openssl("req", *new, "-subj", f"/CN={name}", "-keyout", key, "-out", f"{name}.csr")
        (folder / "extra").write_text(extra)
        signed = ("-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", *signed, "-extfile", "extra", "-out", certificate
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "server.pem", folder / "server-key.pem")
    return context
