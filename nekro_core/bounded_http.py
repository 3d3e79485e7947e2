"""uvicorn's HTTP with bounds on what somebody may send before anything knows who it is.

uvicorn 0.54 on httptools keeps a header of any length in memory, waits for its end for ever, and
takes connections until the process has no file descriptor left for anything else.
"""

import asyncio
import socket
from typing import Any, ClassVar

from loguru import logger
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = b"HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    """To be named as ``http`` in `uvicorn.Config`. A WebSocket's request is bounded like any."""

    most_head_bytes: ClassVar[int] = 64 * 1024
    """Address and headers of one request; also what may come without being a part of a body."""
    head_s: ClassVar[float] = 10.0
    """Seconds in which a request's address and headers must be there, the first one's from the
    beginning of the connection."""
    untaken_s: ClassVar[float] = 120.0
    """How long a client may leave its answer untaken. Whoever reads nothing would otherwise keep a
    connection, and what is to be sent over it, for ever; WebSockets included."""
    most_connections: ClassVar[int] = 512
    """At once, those of pages and platforms included. A page needs two or three; a process may
    often open 1,024 files, and the database and the boxes need theirs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as the parent: transports of sockets only
        self, transport: asyncio.Transport
    ) -> None:
        """Asyncio: somebody came."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            logger.warning("a connection is refused: {} are open", self.most_connections)
            transport.abort()
        else:
            _bound_untaken(transport, self.untaken_s)
            self._wait_for_head()

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

    def on_message_begin(self) -> None:
        """httptools: a request begins."""
        self._unread = 0
        self._wait_for_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """httptools: all but the body is there."""
        self._unread = 0
        self._head_is_there()
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
