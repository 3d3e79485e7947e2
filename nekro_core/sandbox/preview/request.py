"""One visit of a preview: a browser on one side, a server in a box on the other; its body as it is
read, and its place among the connections at once.

"""

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
"""How long the rest of a body that nobody wants is still taken. A connection that is closed on
unread bytes is reset, and the browser never sees why (RFC 9112, 9.6)."""


class RequestBody:
    """The messages of one request. ``whole`` once nothing of its body is left to read."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        names = {name for name, _ in scope["headers"]}
        self.whole = scope["type"] != "http" or names.isdisjoint(
            {b"content-length", b"transfer-encoding"}
        )
        # Who asks first sends nothing before it is told to, and that it never is now.
        self._asks_first = b"expect" in names
        self._touched = False
        self._receive = receive

    async def next(self) -> Message:
        """The next message."""
        self._touched = True
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.whole = True
        return message

    async def linger(self) -> None:
        """Take and drop the rest, for a moment."""
        if self._asks_first and not self._touched:
            return
        with anyio.move_on_after(LINGER_S):
            while not self.whole:
                await self.next()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest:
    """What a request or a WebSocket is carried between, and within which bounds."""

    scope: Scope
    body: RequestBody
    send: Send
    stream: ByteStream
    """To the box; whoever connected closes it."""
    port: int
    """The server's, as the box numbers it."""
    settings: PreviewSettings

    @property
    def path(self) -> bytes:
        """As the browser spelt it."""
        path: bytes = self.scope.get("raw_path") or b"/"
        return path


class ConnectionLimitReached(NekroError):
    """There are as many connections as may be."""


class ConnectionLimiter:
    """Counts connections: in all, of each box, of each name. A slow one keeps its own only."""

    def __init__(self, settings: PreviewSettings) -> None:
        self._settings = settings
        self._boxes: Counter[PreviewTarget] = Counter()
        self._names: Counter[str] = Counter()

    @contextmanager
    def taken(self, opened: OpenPreview) -> Iterator[None]:
        """Hold one slot. Raises `ConnectionLimitReached`."""
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
