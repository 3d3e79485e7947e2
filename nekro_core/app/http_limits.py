"""uvicorn's HTTP with bounds on what somebody may send before anything knows who it is.

uvicorn 0.54 on httptools keeps a header of any length in memory, waits for its end for ever, and
takes connections until the process has no file descriptor left for anything else. Its limit of 5 s
between two requests ends with any byte: after an answer that came before the whole body, or with an
empty line, somebody could hold a connection for ever, and all of them for nobody else to come in.
"""

import asyncio
import socket
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONNECTION_REFUSED = "A connection is refused: %d are open."
_TOO_LARGE = b"HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class LimitedHttpProtocol(HttpToolsProtocol):
    """To be named as ``http`` in `uvicorn.Config`. A WebSocket's request is bounded like any."""

    most_head_bytes: ClassVar[int] = 64 * 1024
    """Address and headers of one request; also what may come without being a part of a body."""
    head_s: ClassVar[float] = 10.0
    """Seconds in which a request's address and headers must be there: the first one's from the
    beginning of the connection, a later one's from the first byte after the answer before."""
    untaken_s: ClassVar[float] = 120.0
    """How long a client may leave its answer untaken. Whoever reads nothing would otherwise keep a
    connection, and what is to be sent over it, for ever; WebSockets included."""
    most_backslashes: ClassVar[int] = 500
    """In the cookies of one request; over it, cookies that have any are left out. Python's own
    reader takes time by their square (CVE-2024-7592, mended in 3.11.10 and 3.12.6): 60,000 held
    everything up for 10 to 24 s, on any address that a framework answers. Some servers write a
    comma as ``\\054``."""
    most_connections: ClassVar[int] = 512
    """At once, those of pages and platforms included. A page needs two or three; a process may
    often open 1,024 files, and the database and the boxes need theirs. One more takes the place of
    the one that has asked nothing for longest; where all are asking, it is refused."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = 0
        self._backslashes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self.idle_since: float | None = None
        """Since when nobody asks anything, on the loop's clock; None while a request is here."""

    def connection_made(  # type: ignore[override]  # as the parent: transports of sockets only
        self, transport: asyncio.Transport
    ) -> None:
        """Asyncio: somebody came."""
        super().connection_made(transport)
        _bound_untaken(transport, self.untaken_s)
        self.idle_since = self.loop.time()
        self._wait_for_head()
        if len(self.connections) > self.most_connections:
            self._make_room()

    def _make_room(self) -> None:
        others = [
            each
            for each in self.connections
            if each is not self and not each.transport.is_closing()
        ]
        if len(others) < self.most_connections:
            return
        silent = [
            (each.idle_since, each)
            for each in others
            if isinstance(each, LimitedHttpProtocol) and each.idle_since is not None
        ]
        if silent:
            min(silent, key=lambda found: found[0])[1].transport.abort()
        else:
            self.logger.warning(CONNECTION_REFUSED, self.most_connections)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio: it is over."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Asyncio: some bytes came. What the parser makes nothing of, it keeps."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self.most_head_bytes and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._is_between_requests() and self.timeout_keep_alive_task is None:
            self._wait_for_head()

    def _is_between_requests(self) -> bool:
        """Whether the last one has its answer. A WebSocket's connection is no longer ours."""
        answered = bool(self.cycle) and self.cycle.response_complete
        return answered and not self.pipeline and self in self.connections

    def on_response_complete(self) -> None:
        """uvicorn: the answer is written."""
        super().on_response_complete()
        if self._is_between_requests():
            self.idle_since = self.loop.time()

    def on_message_begin(self) -> None:
        """httptools: a request begins."""
        self._unread = self._backslashes = 0
        self._wait_for_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: one header."""
        if name.lower() == b"cookie":
            self._backslashes += value.count(b"\\")
            if self._backslashes > self.most_backslashes:
                value = b";".join(each for each in value.split(b";") if b"\\" not in each)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """httptools: all but the body is there."""
        self._unread = 0
        self._head_is_there()
        self.idle_since = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """httptools: a piece of the body, which whoever reads it bounds."""
        self._unread = 0
        super().on_body(body)

    def _wait_for_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self._head_is_late)

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()


def _bound_untaken(transport: asyncio.Transport, seconds: float) -> None:
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it
    connection = transport.get_extra_info("socket")
    if option is not None and connection is not None and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
