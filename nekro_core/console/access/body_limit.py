"""Limits the bodies of requests to adapters' own routes. NoneBot's driver reads a whole body of any
size before an adapter can check the token or the signature."""

import math
from dataclasses import dataclass

import anyio
from anyio.lowlevel import checkpoint
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 8 * 1024 * 1024
"""Maximum number of bytes of one body. An event has a few kilobytes of JSON; media are fetched
separately."""
MOST_IN_ALL = 64 * 1024 * 1024
"""Maximum number of bytes of all bodies that are in memory at once. If there are more, the request
with the largest body is refused."""
BODY_S = 30.0
"""Time limit for receiving one body, in seconds."""
LINGER_S = 5.0
"""Maximum number of seconds for which the rest of a refused body (up to `MOST_BYTES`) is read and
discarded. If a server closes a connection that has unread data, TCP resets the connection, and the
client may not receive the refusal (RFC 9112, section 9.6)."""


@dataclass(eq=False, slots=True)
class _Coming:
    visit: anyio.CancelScope
    size: int = 0
    complete: bool = False


class BodyLimitMiddleware:
    """Passes requests to ``app``, and refuses a request whose body is too large or too slow."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._here: set[_Coming] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application, unless its body exceeds a limit."""
        answered = False

        async def sending(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        if not _has_body(scope):
            await self._app(scope, receive, send)
            return
        with anyio.CancelScope() as visit:
            coming = _Coming(visit)
            self._here.add(coming)
            try:
                await self._app(scope, self._counting(coming, receive), sending)
            finally:
                self._here.discard(coming)
        if visit.cancelled_caught and not answered:
            error = {"code": "body", "message": f"expected a body of {MOST_BYTES} bytes at most"}
            refusal = JSONResponse({"error": error}, 413, {"Connection": "close"})
            await send_refusal(refusal, scope, receive, send)

    def _counting(self, coming: _Coming, receive: Receive) -> Receive:
        async def receiving() -> Message:
            if coming.complete:
                return await receive()
            if coming.visit.deadline == math.inf:
                coming.visit.deadline = anyio.current_time() + BODY_S
            message = await receive()
            coming.size += len(message.get("body") or b"")
            if coming.size > MOST_BYTES:
                self._refuse(coming)
            while sum(each.size for each in self._here) > MOST_IN_ALL:
                self._refuse(max(self._here, key=lambda each: each.size))
            await checkpoint()  # a refused request is cancelled here
            if not message.get("more_body", False):
                coming.complete = True
                coming.visit.deadline = math.inf
            return message

        return receiving

    def _refuse(self, coming: _Coming) -> None:
        self._here.discard(coming)
        coming.visit.cancel()


async def send_refusal(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer to a request whose body was not read. If the answer closes the connection, the
    rest of the body is first read and discarded; see `LINGER_S`."""
    if not _has_body(scope) or refusal.headers.get("connection") != "close":
        await refusal(scope, receive, send)
        return
    await refusal(scope, receive, _left_open(send))
    await _read_on(receive)
    await send({"type": "http.response.body"})  # now the server closes the connection


def _left_open(send: Send) -> Send:
    """Wrap ``send`` so that the answer is not marked as complete."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    return sending


async def _read_on(receive: Receive) -> None:
    """Read and discard the rest of a refused body, within the limits of `LINGER_S`."""
    left = MOST_BYTES
    with anyio.move_on_after(LINGER_S):
        while left > 0:
            message = await receive()
            left -= len(message.get("body") or b"")
            if not message.get("more_body", False):
                return


def _has_body(scope: Scope) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in scope["headers"])
