"""Wraps the bot's web application in a second application. It serves requests for host names of
previews, and forwards all other requests to the bot."""

import re
from enum import Enum

import anyio
from anyio.abc import ByteStream
from starlette.types import ASGIApp, Receive, Scope, Send

from nekro_core.sandbox.box import SandboxError
from nekro_core.sandbox.preview.problems import PreviewProblem, Say, send_problem
from nekro_core.sandbox.preview.registry import OpenPreview, PreviewRegistry, PreviewTargetState
from nekro_core.sandbox.preview.request import (
    ConnectionLimiter,
    ConnectionLimitReached,
    PreviewRequest,
    RequestBody,
)

_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{0,5})?")


class _Whose(Enum):
    """Where a request that is not for a preview goes: to the bot, or nowhere."""

    BOT = "bot"
    NOBODY = "nobody"


class PreviewFront:
    """Serves previews, and forwards all other requests to ``app``, the bot's application.

    If a program could read the ``Host`` header of a request as the name of a preview, the bot never
    gets this request. A request for a host name of the bot never reaches a box. ``say`` returns the
    sentence for a key and a language.
    """

    def __init__(self, app: ASGIApp, preview: PreviewRegistry, say: Say) -> None:
        self._app = app
        self._preview = preview
        self._say = say
        self._slots = ConnectionLimiter(preview.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or one WebSocket."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        name = called_name(scope, self._preview)
        if name is _Whose.BOT:
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            # ASGI requires that the connect message is read before the answer is sent.
            await receive()
        body = RequestBody(scope, receive)
        if name is _Whose.NOBODY or scope.get("method") in {"CONNECT", "TRACE"}:
            problem: PreviewProblem | None = PreviewProblem.BAD_REQUEST
        else:
            problem = await self._show(name, scope, body, send)
        if problem is not None:
            await send_problem(problem, self._say, scope, body, send)

    async def _show(
        self, name: str, scope: Scope, body: RequestBody, send: Send
    ) -> PreviewProblem | None:
        opened = self._preview.find(name)
        if opened is None:
            return PreviewProblem.UNKNOWN
        try:
            with self._slots.taken(opened):
                stream = await self._connect(opened)
                if isinstance(stream, PreviewProblem):
                    return stream
                # It is imported here, because the import takes a tenth of the bot's start time and
                # most bots never serve a preview.
                from nekro_core.sandbox.preview.http_exchange import HttpExchange  # noqa: PLC0415
                from nekro_core.sandbox.preview.websocket_bridge import WebSocketBridge  # noqa: PLC0415

                async with stream:
                    visit = PreviewRequest(
                        scope=scope,
                        body=body,
                        send=send,
                        stream=stream,
                        port=opened.port,
                        settings=self._preview.settings,
                    )
                    carrier = WebSocketBridge if scope["type"] == "websocket" else HttpExchange
                    return await carrier(visit).run()
        except ConnectionLimitReached:
            return PreviewProblem.BUSY

    async def _connect(self, opened: OpenPreview) -> ByteStream | PreviewProblem:
        if _asleep(opened):
            return PreviewProblem.ASLEEP
        try:
            with anyio.fail_after(self._preview.settings.connect_s):
                return await opened.target.connect(opened.port)
        except TimeoutError:
            return PreviewProblem.LATE_ANSWER
        except ConnectionRefusedError:
            return PreviewProblem.NOTHING_LISTENS
        except SandboxError:
            return PreviewProblem.ASLEEP if _asleep(opened) else PreviewProblem.LOST


def _asleep(opened: OpenPreview) -> bool:
    return opened.target.preview_state is PreviewTargetState.SLEEPING


def called_name(scope: Scope, preview: PreviewRegistry) -> str | _Whose:
    """Return the preview's host name in a request. If there is none, return where the request goes.

    If a malformed ``Host`` header contains the domain of previews, the request goes nowhere,
    because a more tolerant parser could read the name of a preview. The same holds if there are
    several ``Host`` headers and one of them contains the domain.
    """
    hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    if not any(preview.settings.domain in host for host in hosts):
        return _Whose.BOT
    if len(hosts) > 1:
        return _Whose.NOBODY
    readable = _HOST.fullmatch(hosts[0])
    if readable is None:
        return _Whose.NOBODY
    name = readable[1].rstrip(".")
    return name if preview.is_name(name) else _Whose.BOT
