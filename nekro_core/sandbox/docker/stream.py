"""Splits the attached stream of a container into stdout and stderr.

The engine sends the output of a container without a terminal in blocks. Each block has a head of 8
bytes, ``stream, 0, 0, 0, length`` (network byte order), and then ``length`` bytes. The input of a
container has no such heads. Source: the Engine API, "Attach to a container", stream format.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

from nekro_core.sandbox.guest.guest_wire import ProtocolError
from nekro_core.sandbox.link.channel import Channel

STDOUT, STDERR = 1, 2

_HEAD = struct.Struct("!B3xI")
_READ_BYTES = 65536
_COMPLAINT_BYTES = 2000


class StreamDemultiplexer:
    """Splits received data into blocks, and calls ``take`` with the number of a stream and some of
    its bytes. A block may arrive in several pieces."""

    def __init__(self, take: Callable[[int, memoryview], None]) -> None:
        self._take = take
        self._head = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: memoryview) -> None:
        """Take received bytes. Raises `ProtocolError` for an invalid head."""
        while data:
            if self._left:
                piece, data = data[: self._left], data[self._left :]
                self._left -= len(piece)
                self._take(self._stream, piece)
                continue
            missing = _HEAD.size - len(self._head)
            self._head += data[:missing]
            data = data[missing:]
            if len(self._head) == _HEAD.size:
                self._stream, self._left = _HEAD.unpack(self._head)
                if self._stream not in (STDOUT, STDERR) or any(self._head[1:4]):
                    raise ProtocolError(f"a block that begins with {self._head.hex()}")
                self._head.clear()


class AttachedStream(asyncio.BufferedProtocol):
    """Connects the engine's stream to a `Channel`. Stdout goes to the channel. The last bytes of
    stderr are stored. If the supervisor ends, the channel gets these bytes as the reason."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._received = bytearray(_READ_BYTES)
        self._blocks = StreamDemultiplexer(self._take)
        self._complaint = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def send(self, data: bytes) -> None:
        """Send bytes before the first frame of the channel."""
        if self._transport is not None:
            self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio calls this when the stream is connected."""
        self._transport = cast(asyncio.WriteTransport, transport)
        self.channel.connection_made(transport)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - asyncio's signature
        """Return the buffer for received bytes. asyncio calls this before it reads."""
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio calls this when some bytes were received."""
        try:
            self._blocks.feed(memoryview(self._received)[:nbytes])
        except ProtocolError as error:
            self.channel.fail(f"its engine sent {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio calls this when the stream has ended."""
        self._transport = None
        if exc is None and (said := self._complaint.decode("utf-8", "replace").strip()):
            self.channel.fail(f"its supervisor ended: {said}")
        self.channel.connection_lost(exc)

    def _take(self, stream: int, data: memoryview) -> None:
        if stream == STDOUT:
            self.channel.receive(data)
        else:
            self._complaint += data
            del self._complaint[:-_COMPLAINT_BYTES]


async def open_stream(sock: socket.socket, channel: Channel) -> AttachedStream:
    """Connect a socket to ``channel``, in both directions."""
    loop = asyncio.get_running_loop()
    if sock.family == socket.AF_UNIX:
        _, stream = await loop.create_unix_connection(lambda: AttachedStream(channel), sock=sock)
    else:
        _, stream = await loop.create_connection(lambda: AttachedStream(channel), sock=sock)
    return stream
