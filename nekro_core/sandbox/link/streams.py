"""Opens connections into a box, and accepts connections out of it. They are passed to the host as
descriptors, or relayed in frames."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from nekro_core.sandbox.box import BoxConnectionError, BoxLost
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.channel import FrameSender
from nekro_core.sandbox.link.relayed_streams import RelayedListener, RelayedStream
from nekro_core.sandbox.results import Listener


@dataclass(slots=True)
class _Opening:
    """A stream or listener that was requested and has not arrived yet."""

    listens: bool
    done: anyio.Event = field(default_factory=anyio.Event)
    found: socket.socket | RelayedStream | RelayedListener | None = None
    refused: str = ""


class BoxStreams:
    """The streams and listeners of one box. ``lose`` loses the box, with a reason."""

    def __init__(self, sender: FrameSender, lose: Callable[[str], None]) -> None:
        self._sender = sender
        self._lose = lose
        self._openings: dict[int, _Opening] = {}
        self._relayed: dict[int, RelayedStream] = {}
        self._listeners: dict[int, DescriptorListener | RelayedListener] = {}
        self._lost = ""

    async def connect(self, number: int, port: int, timeout_s: float) -> anyio.abc.ByteStream:
        """Connect to a port of the box. Raises `BoxConnectionError` and `BoxLost`."""
        with self.expect_stream(number):
            self._sender.send(wire.OPEN, number, msgspec.json.encode({"connect": port}))
            return await self.opened(number, f"port {port} of the box", timeout_s)

    async def listen(self, number: int, port: int, timeout_s: float) -> Listener:
        """Listen at a port of the box. Raises `BoxConnectionError` and `BoxLost`."""
        with self.expect_stream(number, listens=True):
            self._sender.send(wire.OPEN, number, msgspec.json.encode({"listen": port}))
            found = await self._wait(number, f"port {port} of the box", timeout_s)
            if isinstance(found, RelayedListener):
                return found
            assert isinstance(found, socket.socket)
            if not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.close()
                self._lose("its supervisor handed out what does not listen")
                raise BoxLost("the box is gone: it broke the protocol")
            listener = DescriptorListener(found, lambda: self._listeners.pop(number, None))
            self._listeners[number] = listener
            return listener

    @contextlib.contextmanager
    def expect_stream(self, number: int, *, listens: bool = False) -> Iterator[None]:
        """Accept the stream of request ``number`` while the ``with`` block runs. If the block ends
        without taking the stream, the stream is closed."""
        opening = self._openings[number] = _Opening(listens)
        try:
            yield
        finally:
            del self._openings[number]
            if isinstance(opening.found, socket.socket):
                opening.found.close()
            elif opening.found is not None or not opening.done.is_set():
                self._give_up(number)

    async def opened(self, number: int, what: str, timeout_s: float) -> anyio.abc.ByteStream:
        """Wait for the stream of request ``number`` and return it."""
        found = await self._wait(number, what, timeout_s)
        if isinstance(found, RelayedStream):
            return found
        assert isinstance(found, socket.socket)
        try:
            if found.family == socket.AF_UNIX:
                return await anyio.abc.UNIXSocketStream.from_socket(found)
            return await anyio.abc.SocketStream.from_socket(found)
        except (ValueError, OSError) as error:
            found.close()
            self._lose(f"its supervisor handed out what is not connected: {error}")
            raise BoxLost("the box is gone: it broke the protocol") from error

    def take(self, number: int, sock: socket.socket) -> None:
        """Handle a received descriptor."""
        opening = self._openings.get(number)
        if opening is None or opening.done.is_set():
            sock.close()  # The request of this stream has ended.
        else:
            opening.found = sock
            opening.done.set()

    def handle(self, kind: int, number: int, text: bytes, body: bytes) -> None:
        """Handle a frame from the supervisor. Raises `ValueError` for an invalid frame."""
        if kind == wire.OPENED:
            self._handle_opened(number, text.decode("utf-8", "replace"))
        elif kind == wire.ACCEPTED:
            self._handle_accepted(number, int(text))
        elif stream := self._relayed.get(number):
            if kind == wire.DATA:
                kept = stream.deliver(body)
            elif kind == wire.CREDIT:
                kept = stream.add_credit(int(text))
            else:
                kept = True
                stream.end()
                del self._relayed[number]
            if not kept:
                raise ValueError("more bytes on a stream than its window allows")

    def close(self) -> None:
        """End all streams and wake all callers that wait, after the end of the box."""
        self._lost = "the box is gone"
        for opening in self._openings.values():
            opening.done.set()
        for stream in self._relayed.values():
            stream.end()
        for listener in tuple(self._listeners.values()):
            listener.close()
        self._relayed.clear()
        self._listeners.clear()

    async def _wait(
        self, number: int, what: str, timeout_s: float
    ) -> socket.socket | RelayedStream | RelayedListener:
        opening = self._openings[number]
        with anyio.move_on_after(timeout_s):
            await opening.done.wait()
        if self._lost:
            raise BoxLost(self._lost)
        if not opening.done.is_set():
            raise BoxConnectionError(f"{what} did not answer within {timeout_s:g} s")
        found, opening.found = opening.found, None
        if found is None:
            raise BoxConnectionError(f"{what}: {opening.refused}")
        return found

    def _handle_opened(self, number: int, refused: str) -> None:
        opening = self._openings.get(number)
        if opening is None or opening.done.is_set():
            return
        if refused:
            opening.refused = refused[:200]
        elif opening.listens:
            listener = opening.found = RelayedListener(lambda: self._give_up(number))
            self._listeners[number] = listener
        else:
            opening.found = self._relay(number)
        opening.done.set()

    def _handle_accepted(self, number: int, accepted: int) -> None:
        listener = self._listeners.get(number)
        if accepted in self._relayed or not wire.ACCEPTED_BIT < accepted <= wire.UNLIMITED:
            raise ValueError("a stream of a number that is taken")
        if not isinstance(listener, RelayedListener):
            self._sender.send(wire.CLOSE, accepted)
        elif not listener.deliver(self._relay(accepted)):
            raise ValueError("more connections than a box may have")

    def _relay(self, number: int) -> RelayedStream:
        def forget() -> None:
            self._relayed.pop(number, None)

        stream = self._relayed[number] = RelayedStream(self._sender, number, forget)
        return stream

    def _give_up(self, number: int) -> None:
        self._relayed.pop(number, None)
        self._listeners.pop(number, None)
        self._sender.send(wire.CLOSE, number)


class DescriptorListener:
    """A `Listener` on a socket that the supervisor made in the box's network and passed to the
    host."""

    def __init__(self, sock: socket.socket, on_closed: Callable[[], object]) -> None:
        self._socket = sock
        self._on_closed = on_closed

    async def accept(self) -> anyio.abc.ByteStream:
        """See `Listener.accept`."""
        await anyio.lowlevel.checkpoint()
        while self._socket.fileno() >= 0:
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                await anyio.wait_readable(self._socket)
            else:
                accepted.setblocking(False)
                return await anyio.abc.SocketStream.from_socket(accepted)
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        """See `Listener.aclose`."""
        self._on_closed()
        self.close()
        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Stop listening."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
