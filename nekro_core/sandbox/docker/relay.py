"""Makes a plain socket for asyncio from any kind of connection that the `docker` package returns.

For an engine on this machine or over plain TCP, this is the connection's own socket. A connection
over TLS, or over SSH (which the package supports if Paramiko is installed), encrypts its data, so
its bare socket cannot be used. For such a connection a thread copies the bytes between it and a
socket pair.
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
"""Number of bytes that may wait to be sent to one side. While this many bytes wait, no bytes are
read from the other side."""
_LAST_WORDS_S = 1.0
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, TimeoutError)
"""The errors that a non-blocking call raises instead of waiting. Paramiko raises `TimeoutError`."""
_TRY_AGAIN_MS = 20
"""Pause before the next attempt to send, in milliseconds. It is needed because `select.poll` does
not show when an SSH channel can send more."""


class RawConnection(Protocol):
    """The methods of a TLS or SSH connection that the relay uses."""

    def fileno(self) -> int:
        """Return the descriptor for `select.poll`."""

    def setblocking(self, flag: bool, /) -> None:
        """Set whether calls block."""

    def recv(self, size: int, /) -> bytes:
        """Read the bytes that are available."""

    def send(self, data: Any, /) -> int:
        """Send as many bytes as possible now, and return how many."""

    def close(self) -> None:
        """Close the connection."""


def plain_socket(given: Any) -> socket.socket:
    """Return a connected socket for the stream of ``given``, and close ``given`` at once or at the
    end of the stream.

    ``given`` is what `docker.APIClient.attach_socket` returns: a raw stream over a socket, or the
    connection object itself. The caller must not have read from it.
    """
    inner = socket_of(given)
    if type(inner) is not socket.socket:
        return _relayed(cast(RawConnection, inner), given)
    plain = socket.socket(fileno=os.dup(inner.fileno()))
    close_given(given)
    plain.setblocking(False)
    if plain.family != socket.AF_UNIX:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # If the engine's machine crashes, it does not close the connection. Keepalive then ends it.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return plain


def socket_of(given: Any) -> Any:
    """Return the connection inside an object of the `docker` package. The calls of this connection
    block, with a time limit."""
    return getattr(given, "_sock", given)


def close_given(given: Any) -> None:
    """Close ``given`` by closing its HTTP response, because the response also has a reference to
    the connection."""
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
    """Copy bytes between ``far`` and ``near`` in both directions until one of them ends. Then close
    both, and ``given``, the object of the `docker` package that ``far`` is from."""
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
                # The connection may have decrypted bytes that `poll` does not report.
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
