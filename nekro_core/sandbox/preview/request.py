"""Holds one request to a preview, reads the ASGI messages of its body, and limits the number of
open connections."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import ByteStream
from starlette.types import Message, Receive, Scope, Send

from nekro_core.sandbox.preview.registry import OpenPreview, PreviewTarget
from nekro_core.sandbox.preview.settings import PreviewSettings
from nekro_core.system.errors import NekroError

LINGER_S = 1.0
"""Longest time in seconds for reading the rest of a body that is not needed. If the web server
closed a connection that has unread bytes, the connection would be reset, and the browser might lose
the answer (RFC 9112, section 9.6)."""


class RequestBody:
    """The ASGI messages of one request. ``whole`` says whether the body was read to its end."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        names = {name for name, _ in scope["headers"]}
        self.whole = scope["type"] != "http" or names.isdisjoint(
            {b"content-length", b"transfer-encoding"}
        )
        # A client with ``Expect`` sends no body before it receives ``100 Continue``.
        self._asks_first = b"expect" in names
        self._touched = False
        self._receive = receive

    async def next(self) -> Message:
        """Wait for the next message."""
        self._touched = True
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.whole = True
        return message

    async def linger(self) -> None:
        """Read and discard the rest of the body, for at most `LINGER_S` seconds."""
        if self._asks_first and not self._touched:
            return
        with anyio.move_on_after(LINGER_S):
            while not self.whole:
                await self.next()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest:
    """A request or a WebSocket of a browser, and the connection to the server in the box."""

    scope: Scope
    body: RequestBody
    send: Send
    stream: ByteStream
    """The connection to the server in the box. The code that opened it closes it."""
    port: int
    """The server's port in the box."""
    settings: PreviewSettings

    @property
    def path(self) -> bytes:
        """The path as the browser sent it."""
        path: bytes = self.scope.get("raw_path") or b"/"
        return path


class ConnectionLimitReached(NekroError):
    """The limit of open connections is reached."""


class ConnectionLimiter:
    """Limits the open connections of all previews, of each box, and of each preview. So a slow
    preview cannot use up the connections of the others."""

    def __init__(self, settings: PreviewSettings) -> None:
        self._settings = settings
        self._boxes: Counter[PreviewTarget] = Counter()
        self._names: Counter[str] = Counter()

    @contextmanager
    def taken(self, opened: OpenPreview) -> Iterator[None]:
        """Count one connection while the ``with`` block runs. Raises `ConnectionLimitReached`."""
        if (
            self._names.total() >= self._settings.connections
            or self._boxes[opened.target] >= self._settings.connections_per_box
            or self._names[opened.token] >= self._settings.connections_per_name
        ):
            raise ConnectionLimitReached
        self._boxes[opened.target] += 1
        self._names[opened.token] += 1
        try:
            yield
        finally:
            _less(self._boxes, opened.target)
            _less(self._names, opened.token)


def _less(counter: Counter[Any], key: Any) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
