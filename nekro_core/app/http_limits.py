"""Limits what a client that is not logged in can use of uvicorn: memory, time and connections.

uvicorn 0.54 with httptools stores a header of any length and waits for its end without a limit. It
accepts connections until the process has no file descriptors left. It allows 5 s between two
requests, but as soon as the client sends a byte, this limit no longer applies. So a client could
keep a connection open forever, by sending an empty line, or the rest of a body after an early
answer. With enough such connections, no other client could connect.
"""

import asyncio
import socket
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONNECTION_REFUSED = "A connection is refused: %d are open."
_TOO_LARGE = b"HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class LimitedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits. Pass this class as ``http`` to `uvicorn.Config`. The
    limits also apply to the request that opens a WebSocket."""

    most_head_bytes: ClassVar[int] = 64 * 1024
    """Maximum number of bytes of a request's address and headers together. Other bytes that are
    outside a body have the same limit."""
    head_s: ClassVar[float] = 10.0
    """Seconds within which a request's address and headers must arrive. For the first request, the
    time begins with the connection. For a later request, it begins with the first byte after the
    previous answer."""
    untaken_s: ClassVar[float] = 120.0
    """Maximum number of seconds for which a client may leave the bot's data unread, also on a
    WebSocket. Without this limit, a client that reads nothing could keep a connection and its
    unsent data forever."""
    most_backslashes: ClassVar[int] = 500
    """Maximum number of backslashes in the cookies of one request. If there are more, the cookies
    with a backslash are removed. The time of Python's cookie parser grows with the square of the
    number of backslashes (CVE-2024-7592, fixed in 3.11.10 and 3.12.6): 60,000 backslashes in a
    request to any address blocked the event loop for 10 to 24 s. A few backslashes must be allowed,
    because some servers write a comma as ``\\054``."""
    most_connections: ClassVar[int] = 512
    """Maximum number of connections at one time, including those of pages and platforms. A page
    needs two or three connections. A process may often open only 1,024 files, and the database and
    the boxes need some of them. When this number is reached, a new connection replaces the
    connection that has been idle for the longest time. If none is idle, the new connection is
    refused."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = 0
        self._backslashes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self.idle_since: float | None = None
        """The time at which the connection became idle, on the event loop's clock; None while a
        request is processed."""

    def connection_made(  # type: ignore[override]  # like the parent: socket transports only
        self, transport: asyncio.Transport
    ) -> None:
        """Asyncio calls this when a client has connected."""
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
        """Asyncio calls this when the connection has ended."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Asyncio calls this for received bytes. The parser keeps an unfinished address and its
        headers in memory, so their size is limited here."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self.most_head_bytes and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._is_between_requests() and self.timeout_keep_alive_task is None:
            self._wait_for_head()

    def _is_between_requests(self) -> bool:
        """Return True if the last request has been answered and no other request waits. Returns
        False for a WebSocket."""
        answered = bool(self.cycle) and self.cycle.response_complete
        return answered and not self.pipeline and self in self.connections

    def on_response_complete(self) -> None:
        """uvicorn calls this when an answer is written."""
        super().on_response_complete()
        if self._is_between_requests():
            self.idle_since = self.loop.time()

    def on_message_begin(self) -> None:
        """httptools calls this when a request begins."""
        self._unread = self._backslashes = 0
        self._wait_for_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools calls this for each header."""
        if name.lower() == b"cookie":
            self._backslashes += value.count(b"\\")
            if self._backslashes > self.most_backslashes:
                value = b";".join(each for each in value.split(b";") if b"\\" not in each)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """httptools calls this when all headers of a request have arrived."""
        self._unread = 0
        self._head_is_there()
        self.idle_since = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """httptools calls this for a piece of the body. The code that reads the body limits its
        size."""
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
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # exists only on Linux
    connection = transport.get_extra_info("socket")
    if option is not None and connection is not None and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
