"""Makes connections between the box and the host. They are passed to the host as descriptors, or
relayed.

A socket stays in the network namespace in which it was made, even if another process uses it. So
the supervisor makes the socket in the box and passes its descriptor to the host. If there is no
descriptor socket, the stream is relayed as `guest_wire` describes.
"""

from __future__ import annotations

import _socket
import errno
import os
import select

import guest_confinement
import guest_wire as wire
from guest_minimal_stdlib import suppress

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

_PIECE = 65536
_MOST = 128
"""Maximum number of streams that are relayed at the same time. The supervisor may have 512 open
descriptors in all."""
_BACKLOG = 128


class _Relayed:
    """A relayed stream and its socket in the box."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.number = number
        self.sock = sock
        self.credit = wire.WINDOW
        self.outgoing = bytearray()
        self.passed_on = 0
        self.host_ended = self.ended = False

    @property
    def events(self) -> int:
        """The events of `select.poll` for which the stream waits."""
        wanted = select.POLLIN if self.credit > 0 and not self.ended else 0
        return wanted | (select.POLLOUT if self.outgoing else 0)


class StreamRelay:
    """Relays all open streams. `handle` moves only one piece of each stream, so that streams do not
    delay the calls of a run."""

    def __init__(
        self, host: wire.BlockingChannel, poll: Any, fd_socket: socket.socket | None
    ) -> None:
        self._host = host
        self._poll = poll
        self._fd_socket = fd_socket
        self._relayed: dict[int, _Relayed] = {}
        self._listening: dict[int, tuple[int, socket.socket]] = {}
        self._connecting: dict[int, tuple[int, socket.socket]] = {}
        self._by_descriptor: dict[int, int] = {}
        self._accepted = 0

    @property
    def busy(self) -> bool:
        """Return True if there is a relayed connection or a listener."""
        return bool(self._relayed or self._listening or self._connecting)

    def open(self, number: int, wanted: dict[str, int]) -> None:
        """Connect to the port ``wanted["connect"]`` of the box, or listen on the port
        ``wanted["listen"]``."""
        import socket

        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            if "listen" in wanted:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("127.0.0.1", wanted["listen"]))
                sock.listen(_BACKLOG)
                self._give_listener(number, sock)
            else:
                sock.connect(("127.0.0.1", wanted["connect"]))
                self.give(number, sock)
        except BlockingIOError:
            self._connecting[sock.fileno()] = (number, sock)
            self._poll.register(sock, select.POLLOUT)
        except OSError as error:
            sock.close()
            self._refuse(number, error)

    def give(self, number: int, sock: socket.socket) -> None:
        """Give the host a connected socket: pass its descriptor, or relay it."""
        if self._send_away(number, sock):
            return
        if len(self._relayed) >= _MOST:
            sock.close()
            self._refuse(number, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
            return
        self._host.send(wire.OPENED, number)
        self._relay(number, sock)

    def take(self, kind: int, number: int, text: bytes, body: bytes) -> None:
        """Handle a frame of the host about a stream. Ignored if the stream has ended."""
        stream = self._relayed.get(number)
        if kind == wire.CLOSE:
            self._close(number)
        elif stream is None:
            return
        elif kind == wire.CREDIT:
            stream.credit += int(text)
        elif body:
            stream.outgoing += body
            self._write(stream)
        else:
            stream.host_ended = True
            self._write(stream)
        if number in self._relayed and stream is not None:
            self._watch(stream)

    def handle(self, events: dict[int, int]) -> None:
        """Move data of each stream that is ready, and accept or finish connections."""
        for descriptor, event in events.items():
            if descriptor in self._by_descriptor:
                stream = self._relayed[self._by_descriptor[descriptor]]
                if event & select.POLLOUT:
                    self._write(stream)
                if event & ~select.POLLOUT and stream.number in self._relayed:
                    self._read(stream)
                if stream.number in self._relayed:
                    self._watch(stream)
            elif descriptor in self._connecting:
                self._connected(descriptor)
            elif descriptor in self._listening:
                self._accept(*self._listening[descriptor])

    def _send_away(self, number: int, sock: socket.socket) -> bool:
        if self._fd_socket is None:
            return False
        with sock:
            head = wire.DESCRIPTOR_HEAD.pack(number)
            try:
                guest_confinement.send_descriptor(self._fd_socket, head, sock.fileno())
            except OSError as error:
                self._refuse(number, error)
        return True

    def _give_listener(self, number: int, sock: socket.socket) -> None:
        if not self._send_away(number, sock):
            self._host.send(wire.OPENED, number)
            self._listening[sock.fileno()] = (number, sock)
            self._poll.register(sock, select.POLLIN)

    def _refuse(self, number: int, error: OSError) -> None:
        self._host.send(wire.OPENED, number, (error.strerror or "refused").encode())

    def _connected(self, descriptor: int) -> None:
        number, sock = self._connecting.pop(descriptor)
        self._poll.unregister(descriptor)
        failed = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if failed:
            sock.close()
            self._refuse(number, OSError(failed, os.strerror(failed)))
        else:
            self.give(number, sock)

    def _accept(self, listener: int, sock: socket.socket) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = sock.accept()
            if len(self._relayed) >= _MOST:
                accepted.close()
                return
            self._accepted += 1
            number = wire.ACCEPTED_BIT | self._accepted
            self._host.send(wire.ACCEPTED, listener, str(number).encode())
            self._relay(number, accepted)

    def _relay(self, number: int, sock: socket.socket) -> None:
        stream = self._relayed[number] = _Relayed(number, sock)
        self._by_descriptor[sock.fileno()] = number
        self._poll.register(sock, stream.events)

    def _watch(self, stream: _Relayed) -> None:
        """Register the events that the stream waits for. If it waits for none, unregister it.
        Otherwise `select.poll` would report the end of the connection again and again."""
        if stream.events:
            self._poll.register(stream.sock, stream.events)
        else:
            with suppress(KeyError):
                self._poll.unregister(stream.sock)

    def _read(self, stream: _Relayed) -> None:
        if stream.ended or stream.credit <= 0:
            return
        try:
            piece = stream.sock.recv(min(_PIECE, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self._drop(stream)
            return
        stream.credit -= len(piece)
        stream.ended = not piece
        self._host.send(wire.DATA, stream.number, b"", piece)
        self._end_if_over(stream)

    def _write(self, stream: _Relayed) -> None:
        try:
            while stream.outgoing:
                sent = stream.sock.send(stream.outgoing)
                del stream.outgoing[:sent]
                stream.passed_on += sent
        except BlockingIOError:
            pass
        except OSError:
            self._drop(stream)
            return
        if stream.passed_on >= wire.WINDOW // 2:
            self._host.send(wire.CREDIT, stream.number, str(stream.passed_on).encode())
            stream.passed_on = 0
        if stream.host_ended and not stream.outgoing:
            with suppress(OSError):
                stream.sock.shutdown(_socket.SHUT_WR)
            self._end_if_over(stream)

    def _end_if_over(self, stream: _Relayed) -> None:
        if stream.ended and stream.host_ended and not stream.outgoing:
            self._drop(stream)

    def _drop(self, stream: _Relayed) -> None:
        """Close the stream and tell the host."""
        self._host.send(wire.CLOSE, stream.number)
        self._close(stream.number)

    def _close(self, number: int) -> None:
        stream = self._relayed.pop(number, None)
        if stream is not None:
            del self._by_descriptor[stream.sock.fileno()]
            self._forget(stream.sock)
        for waiting in (self._connecting, self._listening):
            for descriptor, (of, sock) in tuple(waiting.items()):
                if of == number:
                    del waiting[descriptor]
                    self._forget(sock)

    def _forget(self, sock: socket.socket) -> None:
        with suppress(KeyError):
            self._poll.unregister(sock)
        sock.close()
