"""A request's body as it is read, so that its rest is not in the way of the answer."""

import anyio
from starlette.types import Message, Receive, Scope

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
