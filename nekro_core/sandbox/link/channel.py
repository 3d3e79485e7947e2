"""Sends and receives frames at the host's end of a box's channel. Received frames are passed to a
callback. Sending never waits."""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, cast

from nekro_core.sandbox.guest import guest_wire as wire

_READ_BYTES = 65536

_BODY_LIMIT = 256 * 1024 * 1024
"""Limit in bytes of the body of one frame from a supervisor. It is larger than the largest value
that a call may have."""


class FrameSender(Protocol):
    """Sends frames to a supervisor."""

    def send(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send a frame. Does nothing and raises no error if the channel is lost."""


class Channel(asyncio.BufferedProtocol):
    """Sends and receives frames over a stream. Calls ``on_frame`` for each received frame, and
    ``on_lost`` at the end of the stream."""

    def __init__(
        self, on_frame: Callable[[wire.Frame], None], on_lost: Callable[[str], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._received = bytearray(_READ_BYTES)
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._held = bytearray()

    @classmethod
    async def open(
        cls,
        sock: socket.socket,
        on_frame: Callable[[wire.Frame], None],
        on_lost: Callable[[str], None],
    ) -> "Channel":
        """Make a channel over a connected socket. The channel closes the socket."""
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(lambda: cls(on_frame, on_lost), sock=sock)
        return channel

    def send(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send a frame. Does nothing and raises no error if the channel is lost."""
        if self._held:
            self._flush()
        if self._transport is not None and not self._transport.is_closing():
            if len(body) < 65536:
                self._transport.write(wire.frame(kind, number, text, body))
            else:
                head = wire.HEAD.pack(kind, number, len(text), len(body))
                self._transport.writelines((head + text, body))

    def send_soon(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send a frame in one write with all other frames of this cycle of the event loop, so that
        the supervisor wakes only once."""
        if not self._held:
            asyncio.get_running_loop().call_soon(self._flush)
        self._held += wire.frame(kind, number, text, body)

    def _flush(self) -> None:
        held, self._held = self._held, bytearray()
        if held and self._transport is not None and not self._transport.is_closing():
            self._transport.write(held)

    def close(self) -> None:
        """Close the channel; the supervisor then ends."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio calls this when the stream is connected."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - asyncio's signature
        """Return the buffer for received bytes. asyncio calls this before it reads. The buffer is
        reused. With an `asyncio.Protocol`, asyncio would allocate 256 KiB for each read."""
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio calls this when some bytes were received."""
        self.receive(memoryview(self._received)[:nbytes])

    def receive(self, data: memoryview) -> None:
        """Handle received bytes. `AttachedStream` calls this too, because its channel is only a
        part of what the container's stream carries."""
        self._buffer += data
        try:
            while found := wire.split(self._buffer, _BODY_LIMIT):
                self._on_frame(found)
        except wire.ProtocolError as error:
            self.fail(f"its supervisor sent {error}")

    def fail(self, reason: str) -> None:
        """Close the channel because the received bytes are invalid."""
        self._buffer.clear()
        self.close()
        self._on_lost(reason)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio calls this when the stream has ended."""
        self._transport = None
        self._on_lost("its processes ended" if exc is None else f"its channel broke: {exc}")
