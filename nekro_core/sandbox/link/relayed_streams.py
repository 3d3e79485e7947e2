"""Sends and receives the data of a box's connections, if the supervisor relays them in numbered
frames.

Each side may send at most `WINDOW` bytes that the other side has not read yet. So no stream delays
the tool calls on the same channel, and unread bytes need little memory. See `guest_wire`.
"""

from collections import deque
from collections.abc import Callable

import anyio
import anyio.abc
import anyio.lowlevel

from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.channel import FrameSender

_PIECE = 64 * 1024
_BACKLOG = 256
"""Maximum number of connections that wait for `accept`. It is twice the backlog of the supervisor's
listener."""


class RelayedStream(anyio.abc.ByteStream):
    """One relayed connection. ``on_closed`` is called once, when `aclose` closes the connection."""

    def __init__(self, sender: FrameSender, number: int, on_closed: Callable[[], None]) -> None:
        self._sender = sender
        self._number = number
        self._on_closed = on_closed
        self._received: deque[bytes] = deque()
        self._waiting = 0
        self._taken = 0
        self._credit = wire.WINDOW
        self._ended = self._over = self._closed = self._eof_sent = False
        self._changed = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """See `anyio.abc.ByteReceiveStream.receive`."""
        await anyio.lowlevel.checkpoint()
        while not self._received:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._ended:
                raise anyio.EndOfStream
            if self._over:
                raise anyio.BrokenResourceError
            await self._changed.wait()
        piece = self._received.popleft()
        if len(piece) > max_bytes:
            self._received.appendleft(piece[max_bytes:])
            piece = piece[:max_bytes]
        self._waiting -= len(piece)
        self._taken += len(piece)
        if self._taken >= wire.WINDOW // 2:
            self._sender.send(wire.CREDIT, self._number, str(self._taken).encode())
            self._taken = 0
        return piece

    async def send(self, item: bytes) -> None:
        """See `anyio.abc.ByteSendStream.send`."""
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            if self._closed or self._eof_sent:
                raise anyio.ClosedResourceError
            if self._over:
                raise anyio.BrokenResourceError
            count = min(self._credit, len(rest), _PIECE)
            if count:
                self._credit -= count
                self._sender.send(wire.DATA, self._number, b"", bytes(rest[:count]))
                rest = rest[count:]
            else:
                await self._changed.wait()

    async def send_eof(self) -> None:
        """See `anyio.abc.ByteStream.send_eof`."""
        if not self._eof_sent and not self._over and not self._closed:
            self._sender.send(wire.DATA, self._number)
        self._eof_sent = True
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close the connection. May be called twice."""
        if not self._closed:
            self._closed = True
            if not self._over:
                self._sender.send(wire.CLOSE, self._number)
            self._on_closed()
            self._wake()
        await anyio.lowlevel.checkpoint()

    def deliver(self, data: bytes) -> bool:
        """Add bytes that the supervisor sent. Empty bytes mean the end of the data. Returns False
        if the supervisor sent more than the window allows."""
        if not data:
            self._ended = True
        elif not self._closed:
            self._waiting += len(data)
            self._received.append(data)
        self._wake()
        return self._waiting + self._taken <= wire.WINDOW

    def add_credit(self, count: int) -> bool:
        """Allow ``count`` more bytes to be sent, because the supervisor has passed on so many.
        Returns False if that is more than was sent to the supervisor."""
        self._credit += count
        self._wake()
        return count >= 0 and self._credit <= wire.WINDOW

    def end(self) -> None:
        """Note that the supervisor has closed the connection."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class RelayedListener:
    """A `Listener` whose connections are relayed."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        self._on_closed = on_closed
        self._accepted: deque[RelayedStream] = deque()
        self._changed = anyio.Event()
        self._closed = False

    async def accept(self) -> anyio.abc.ByteStream:
        """See `Listener.accept`."""
        await anyio.lowlevel.checkpoint()
        while not self._closed:
            if self._accepted:
                return self._accepted.popleft()
            await self._changed.wait()
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        """See `Listener.aclose`."""
        if not self._closed:
            self._on_closed()
            self.close()
            while self._accepted:
                await self._accepted.popleft().aclose()
        await anyio.lowlevel.checkpoint()

    def deliver(self, stream: RelayedStream) -> bool:
        """Add a connection for `accept`. Returns False if too many connections wait."""
        self._accepted.append(stream)
        self._wake()
        return len(self._accepted) <= _BACKLOG

    def close(self) -> None:
        """Close the listener without sending a frame, because the box has ended."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
