"""Ends open websockets and streams when their person loses the right to use them."""

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nekro_core.console.access.authentication import Visit
from nekro_core.store import StoreUnavailable

LOOK_EVERY_S = 2.0
"""Seconds between two checks of an open connection. Each check reads one row."""
CLOSE_CODE = 1008
"""The code with which a websocket is closed. It means that the connection violates a policy (RFC
6455, section 7.4.1)."""


async def while_allowed(
    app: ASGIApp, visit: Visit, scope: Scope, receive: Receive, send: Send
) -> None:
    """Let ``app`` answer a request for as long as its person has the right to make it.

    The request ends within `LOOK_EVERY_S` after the session or token was revoked, or the person was
    disabled or got another role. The browser then connects again by itself, and gets what its
    person may see now. While the database does not answer, no request is ended.
    """
    connection = _Connection(scope, send)
    failure: Exception | None = None
    with anyio.CancelScope() as whole:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, visit, whole)
            # Keep an error and raise it after the task group, so that it is not wrapped in an
            # exception group.
            try:
                await app(scope, receive, connection.send)
            except Exception as error:  # noqa: BLE001 (raised again below)
                failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if whole.cancelled_caught:
        await connection.end()


async def _watch(visit: Visit, whole: anyio.CancelScope) -> None:
    """Cancel the request when its person may no longer make it."""
    while True:
        await anyio.sleep(LOOK_EVERY_S)
        if not await _still(visit):
            whole.cancel()


async def _still(visit: Visit) -> bool:
    try:
        return await visit.current() == visit.actor
    except StoreUnavailable:
        return True


class _Connection:
    """Remembers which parts of an answer were sent, so that the answer can be ended correctly."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._websocket = scope["type"] == "websocket"
        self._send = send
        self._begun = False
        self._complete = False

    async def send(self, message: Message) -> None:
        self._begun = True
        self._complete = message["type"] in {"websocket.close", "websocket.http.response.body"} or (
            message["type"] == "http.response.body" and not message.get("more_body", False)
        )
        await self._send(message)

    async def end(self) -> None:
        if self._complete:
            return
        if self._websocket:
            reason = "the login has ended"
            await self._send({"type": "websocket.close", "code": CLOSE_CODE, "reason": reason})
            return
        if not self._begun:
            headers = [(b"connection", b"close")]
            await self._send({"type": "http.response.start", "status": 401, "headers": headers})
        await self._send({"type": "http.response.body", "body": b""})
