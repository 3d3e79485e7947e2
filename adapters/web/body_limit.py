"""Bodies of requests to other adapters' routes. NoneBot's driver reads them whole, without an end,
before an adapter can look at a token or a signature."""

import math
from dataclasses import dataclass

import anyio
from anyio.lowlevel import checkpoint
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 8 * 1024 * 1024
"""Of one. Events are some kilobytes of JSON; their media are fetched."""
MOST_IN_ALL = 64 * 1024 * 1024
"""Of all that are here now; over it, the largest goes."""
BODY_S = 30.0
"""Longest that one may take to come."""
LINGER_S = 5.0
"""Longest that the rest of a refused body is read and thrown away, and `MOST_BYTES` at most. Who
closes with something unread resets the connection, and the sender may lose the refusal with it (RFC
9112, section 9.6)."""


@dataclass(eq=False, slots=True)
class _Coming:
    visit: anyio.CancelScope
    size: int = 0
    complete: bool = False


class BodyLimitMiddleware:
    """Hands requests on to ``app``, and answers those whose body is too much."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._here: set[_Coming] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, as long as the body is within its bounds."""
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
            await checkpoint()  # which ends it here, where it was refused
            if not message.get("more_body", False):
                coming.complete = True
                coming.visit.deadline = math.inf
            return message

        return receiving

    def _refuse(self, coming: _Coming) -> None:
        self._here.discard(coming)
        coming.visit.cancel()


async def send_refusal(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer to a request whose body nobody reads. Where it closes the connection, some of
    the body is read and thrown away first: see `LINGER_S`."""
    if not _has_body(scope) or refusal.headers.get("connection") != "close":
        await refusal(scope, receive, send)
        return
    await refusal(scope, receive, _left_open(send))
    await _read_on(receive)
    await send({"type": "http.response.body"})  # the connection is closed now


def _left_open(send: Send) -> Send:
    """The same, without the word that the answer ends here."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    return sending


async def _read_on(receive: Receive) -> None:
    """Throw away what still comes of a refused body, within bounds."""
    left = MOST_BYTES
    with anyio.move_on_after(LINGER_S):
        while left > 0:
            message = await receive()
            left -= len(message.get("body") or b"")
            if not message.get("more_body", False):
                return


def _has_body(scope: Scope) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in scope["headers"])
