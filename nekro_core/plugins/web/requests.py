"""Limits HTTP requests to plugins, and reads the request of a webhook."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import anyio
from anyio import to_thread
from loguru import logger

from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.web import WebhookRequest
from nekro_core.system.asgi import Message, Receive, Scope, Send, WebApplication
from nekro_core.system.errors import NekroError
from nekro_core.system.sync_bridge import run_bridged

_CODES = {404: "not_found", 405: "method", 408: "body", 413: "body", 503: "busy"}


class PluginRequests:
    """Limits the requests that a plugin answers: at most ``most`` at one time, each with a body of
    at most ``body_bytes`` bytes.

    When the plugin is unloaded, its open requests are cancelled and new requests are refused.
    """

    def __init__(self, plugin: NekroPlugin, what: str, *, most: int, body_bytes: int) -> None:
        self._plugin = plugin
        self._what = what
        self._most = most
        self._body_bytes = body_bytes
        self._open: set[anyio.CancelScope] = set()
        self._empty = anyio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    async def serve(
        self, application: WebApplication, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Let the plugin's code answer a request. An error is logged without the URL, which may
        contain a secret. If no part of an answer was sent before the error, the answer is 500."""
        if self._closed or len(self._open) >= self._most:
            await refuse(scope, send, 503, "too many requests at one time")
            return
        if _declared_length(scope) > self._body_bytes:
            await refuse(scope, send, 413, f"more than {self._body_bytes} bytes")
            return
        begun = anyio.Event()

        async def sending(message: Message) -> None:
            begun.set()
            await send(message)

        with anyio.CancelScope() as visit:
            self._open.add(visit)
            try:
                with self._plugin.acting():
                    bounded = _bounded(receive, self._body_bytes)
                    await run_bridged(application(scope, bounded, sending))
            except BaseException as error:
                if is_cancellation(error):
                    raise
                logger.exception("plugin {}: {} failed", self._plugin.key, self._what)
                if not begun.is_set():
                    await refuse(scope, send, 500, "the plugin failed; the bot's log says why")
            finally:
                self._leave(visit)
        if visit.cancelled_caught and not begun.is_set():
            await refuse(scope, send, 503, "the plugin was unloaded")

    def _leave(self, visit: anyio.CancelScope) -> None:
        self._open.discard(visit)
        if self._closed and not self._open:
            self._empty.set()

    async def close(self) -> None:
        """Cancel the open requests and wait until they have ended."""
        self._closed = True
        for visit in [*self._open]:
            visit.cancel()
        if self._open:
            await self._empty.wait()


def _bounded(receive: Receive, limit: int) -> Receive:
    """Wrap ``receive``, so that it raises `HTTPException` when the body exceeds ``limit`` bytes."""
    left = limit

    async def receiving() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body") or b"")
        if left < 0:
            # FastAPI would answer 400 to any other exception that is raised while it reads the
            # body.
            from starlette.exceptions import HTTPException  # noqa: PLC0415 - only requests need it

            raise HTTPException(413, f"the request is larger than {limit} bytes")
        return message

    return receiving


def _declared_length(scope: Scope) -> int:
    """Get the ``Content-Length`` of a request; 0 if there is none."""
    for name, value in scope.get("headers", ()):
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def inner_path(scope: Scope) -> str:
    """Get the part of the path after the mount point of the application."""
    return str(scope["path"]).removeprefix(str(scope.get("root_path", ""))).lstrip("/")


async def refuse(scope: Scope, send: Send, status: int, message: str) -> None:
    """Answer a request with an error of the bot; close a WebSocket."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    from starlette.responses import JSONResponse  # noqa: PLC0415 - only requests need it

    error = {"code": _CODES.get(status, "plugin"), "message": message}
    await JSONResponse({"error": error}, status)(scope, _nothing, send)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


_IN_A_THREAD = 256 * 1024
"""JSON and forms with more bytes than this are parsed in a thread. Otherwise their parsing would
block every chat."""


class UnreadableRequest(NekroError):
    """The request cannot be read. ``status`` is the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read_request(endpoint: str, scope: Scope, receive: Receive) -> WebhookRequest:
    """Read the whole request with its body. Raises `UnreadableRequest`."""
    from starlette.datastructures import Headers  # noqa: PLC0415 - only requests need it

    headers = Headers(scope=scope)  # ignores upper and lower case in names
    raw = await _body(receive)
    client = scope.get("client")
    return WebhookRequest(
        endpoint=endpoint,
        headers=headers,
        query=_pairs(scope.get("query_string", b"")),
        body=await _content(headers.get("content-type", ""), raw),
        raw=raw,
        client=client[0] if client else "",
    )


async def _body(receive: Receive) -> bytes:
    from starlette.exceptions import HTTPException  # noqa: PLC0415 - only requests need it

    parts = []
    while True:
        try:
            message = await receive()
        except HTTPException as error:  # the body is too large
            raise UnreadableRequest(error.status_code, error.detail) from None
        if message["type"] == "http.disconnect":
            raise UnreadableRequest(400, "the sender closed the connection")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _content(content_type: str, raw: bytes) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return await to_thread.run_sync(_pairs, raw) if len(raw) > _IN_A_THREAD else _pairs(raw)
    if kind == "application/json" or kind.endswith("+json"):
        try:
            if len(raw) > _IN_A_THREAD:
                return await to_thread.run_sync(json.loads, raw)
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise UnreadableRequest(400, f"the body is no JSON: {error}") from None
    return raw.decode("utf-8", "replace")


def _pairs(raw: bytes) -> Mapping[str, str]:
    return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
