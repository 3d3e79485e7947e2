"""Makes a plain socket for asyncio from any kind of connection that the `docker` package returns.

For an engine on this machine or over plain TCP, this is the connection's own socket. TLS (and SSH,
which the package speaks if Paramiko is installed) has its own state besides the socket. There a
thread carries the bytes between the connection and a socket pair.
"""

import contextlib
import os
import select
import socket
import ssl
import threading
from typing import Any, Protocol, cast

_PIECE = 65536
_WINDOW = 4 * _PIECE
"""Bytes that may wait for one side. With so many, no more is read from the other side."""
_LAST_WORDS_S = 1.0
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, TimeoutError)
"""The errors of a connection that would have to wait. Paramiko raises the last one."""
_TRY_AGAIN_MS = 20
"""Pause before the next attempt to send: no descriptor shows when an SSH channel can take more."""


class RawConnection(Protocol):
    """The methods used of a connection that is more than a socket."""

    def fileno(self) -> int:
        """The descriptor to poll."""

    def setblocking(self, flag: bool, /) -> None:
        """Set whether calls may wait."""

    def recv(self, size: int, /) -> bytes:
        """Read the bytes that are available."""

    def send(self, data: Any, /) -> int:
        """Write as many bytes as fit."""

    def close(self) -> None:
        """Close the connection."""


def plain_socket(given: Any) -> socket.socket:
    """A connected socket for the same stream. ``given`` is closed, at once or when the socket ends.

    ``given`` is what `docker.APIClient.attach_socket` returns: a raw stream over a socket, or the
    connection object itself. Nothing may have been received yet.
    """
    inner = socket_of(given)
    if type(inner) is not socket.socket:
        return _relayed(cast(RawConnection, inner), given)
    plain = socket.socket(fileno=os.dup(inner.fileno()))
    close_given(given)
    plain.setblocking(False)
    if plain.family != socket.AF_UNIX:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A machine that disappears sends nothing: without this its boxes would seem to live on.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return plain


def socket_of(given: Any) -> Any:
    """The connection inside what the `docker` package returns; it blocks, with a time limit."""
    return getattr(given, "_sock", given)


def close_given(given: Any) -> None:
    """Close it together with the response that it came from, which also holds the connection."""
    getattr(given, "_response", given).close()


def _relayed(far: RawConnection, given: Any) -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    far.setblocking(False)
    carrier = threading.Thread(
        target=_carry, args=(far, theirs, given), name="engine's relay", daemon=True
    )
    carrier.start()
    return ours


def _carry(far: RawConnection, near: socket.socket, given: Any) -> None:
    """Carry all bytes in both directions until either side ends."""
    inward, outward = bytearray(), bytearray()
    ready = select.poll()
    with contextlib.ExitStack() as stack:
        stack.callback(close_given, given)
        stack.callback(far.close)
        stack.callback(near.close)
        try:
            while True:
                _read_all(far, inward)
                _read_all(near, outward)
                _write(near, inward)
                _write(far, outward)
                ready.register(far.fileno(), _wanted(inward, outward))
                ready.register(near.fileno(), _wanted(outward, inward))
                # Bytes that are already decrypted do not make a descriptor readable.
                decrypted = getattr(far, "pending", int)() and len(inward) < _WINDOW
                ready.poll(0 if decrypted else _TRY_AGAIN_MS if outward else None)
        except (EOFError, OSError):
            with contextlib.suppress(OSError):
                near.settimeout(_LAST_WORDS_S)
                near.sendall(inward)


def _wanted(read_into: bytearray, written_from: bytearray) -> int:
    reading = select.POLLIN if len(read_into) < _WINDOW else 0
    return reading | (select.POLLOUT if written_from else 0)


def _read_all(source: RawConnection, into: bytearray) -> None:
    while len(into) < _WINDOW:
        try:
            piece = source.recv(_PIECE)
        except _NOT_NOW:
            return
        if not piece:
            raise EOFError
        into += piece


def _write(target: RawConnection, data: bytearray) -> None:
    while data:
        try:
            del data[: target.send(bytes(data[:_PIECE]))]
        except _NOT_NOW:
            return
