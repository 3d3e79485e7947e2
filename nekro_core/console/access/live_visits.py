"""Ends websockets and streams whose person may not ask any more."""

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nekro_core.console.access.authentication import Visit
from nekro_core.store import StoreUnavailable

LOOK_EVERY_S = 2.0
"""Seconds between two checks of an open connection. Each check reads one row."""
CLOSE_CODE = 1008
"""The code with which a websocket is closed: it violates a policy (RFC 6455, section 7.4.1)."""


async def while_allowed(
    app: ASGIApp, visit: Visit, scope: Scope, receive: Receive, send: Send
) -> None:
    """Let ``app`` answer a request for as long as its person may ask.

    The request ends within `LOOK_EVERY_S` after the session or token was revoked, or the person was
    disabled or got another role. A browser connects again by itself and gets what its person may
    see now. While the database does not answer, nothing is ended.
    """
    connection = _Connection(scope, send)
    failure: Exception | None = None
    with anyio.CancelScope() as whole:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, visit, whole)
            # An error is raised outside the task group, so that it is not wrapped in a group.
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
    """Cancel the request when its person may not ask any more."""
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
    """Remembers how far an answer has come, so that it can be ended."""

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
