"""Forwards one HTTP request to a server in a box, and its answer. Request and answer are streamed.

On the connection to the box, h11 writes and parses HTTP. On the connection to the browser, the web
server does this. Each request uses a new connection to the box, which takes 0.1 ms to make.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import h11
from anyio import CancelScope

from nekro_core.sandbox.preview import headers
from nekro_core.sandbox.preview.problems import PreviewProblem
from nekro_core.sandbox.preview.request import PreviewRequest
from nekro_core.system.errors import NekroError

_HEAD_BYTES = 64 * 1024
"""Maximum number of bytes of the head of an answer. The web server has the same limit for
requests."""
_READ_BYTES = 64 * 1024
_CONTINUE_S = 1.0
"""Longest wait for ``100 Continue`` in seconds. After this time the body is sent anyway, as RFC
9110 requires."""
_MIB = 1024 * 1024


class HttpExchange:
    """Forwards one request to the box, and its answer to the browser."""

    def __init__(self, visit: PreviewRequest) -> None:
        self._scope = visit.scope
        self._body = visit.body
        self._send = visit.send
        self._stream = visit.stream
        self._visit = visit
        self._settings = visit.settings
        self._box = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._may_upload = anyio.Event()
        self._answering = False
        self._answered = False
        self._problem: PreviewProblem | None = None
        self._waiting = CancelScope()

    async def run(self) -> PreviewProblem | None:
        """Forward the request and the answer. If a problem is returned, the caller must send it as
        the answer. If a problem happens after the answer has begun, the browser's connection ends
        without the end of the answer, so the browser sees that the answer is incomplete."""
        try:
            head = self._box.send(self._request())
        except h11.LocalProtocolError:
            return PreviewProblem.BAD_REQUEST
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._upload, head or b"", tasks.cancel_scope)
            await self._answer()
            tasks.cancel_scope.cancel()
        if self._answered:
            await self._body.linger()
            await self._send({"type": "http.response.body", "body": b""})
        return None if self._answering else self._problem

    def _request(self) -> h11.Request:
        query = self._scope["query_string"]
        passed = headers.request_headers(self._scope["headers"], scheme=self._settings.scheme)
        if any(name == b"transfer-encoding" for name, _ in self._scope["headers"]):
            passed = [pair for pair in passed if pair[0] != b"content-length"]
            passed.append((b"transfer-encoding", b"chunked"))
        self._expects = any(name == b"expect" for name, _ in passed)
        return h11.Request(
            method=self._scope["method"],
            target=self._visit.path + (b"?" + query if query else b""),
            headers=[*passed, (b"connection", b"close")],
        )

    async def _upload(self, head: bytes, everything: CancelScope) -> None:
        """Send the request, then wait for the browser to disconnect."""
        try:
            await self._stream.send(head)
            if self._expects:
                with anyio.move_on_after(_CONTINUE_S):
                    await self._may_upload.wait()
            await self._upload_body()
        except _Late as late:
            self._fail(late.problem)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # The server does not read the rest of the request. It may still send an answer.
            pass
        except _BrowserLeft:
            everything.cancel()
            return
        self._waiting.deadline = anyio.current_time() + self._settings.answer_s
        while (await self._body.next())["type"] != "http.disconnect":
            pass
        everything.cancel()

    async def _upload_body(self) -> None:
        size, more = 0, True
        while more:
            with _within(self._settings.upload_s, PreviewProblem.LATE_UPLOAD):
                message = await self._body.next()
            if message["type"] == "http.disconnect":
                raise _BrowserLeft
            body, more = message.get("body", b""), message.get("more_body", False)
            size += len(body)
            if size > self._settings.body_mb * _MIB:
                self._fail(PreviewProblem.TOO_LARGE)
                return
            if body:
                await self._pass(h11.Data(body))
        await self._pass(h11.EndOfMessage())

    async def _pass(self, event: h11.Event) -> None:
        data = self._box.send(event)
        if data:
            with _within(self._settings.answer_s, PreviewProblem.LATE_ANSWER):
                await self._stream.send(data)

    def _fail(self, problem: PreviewProblem) -> None:
        self._problem = problem
        self._waiting.cancel()

    async def _answer(self) -> None:
        try:
            with self._waiting:
                head = await self._head()
            if self._waiting.cancelled_caught:
                self._problem = self._problem or PreviewProblem.LATE_ANSWER
                return
            await self._pass_head(head)
            while True:
                with anyio.fail_after(self._settings.idle_s):
                    event = await self._next_event()
                if not isinstance(event, h11.Data):
                    self._answered = True
                    return
                await self._send(
                    {"type": "http.response.body", "body": bytes(event.data), "more_body": True}
                )
        except TimeoutError:
            self._problem = PreviewProblem.LATE_ANSWER
        except (h11.ProtocolError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._problem = PreviewProblem.BROKEN_ANSWER

    async def _head(self) -> h11.Response:
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                if event.status_code >= 600:
                    raise h11.RemoteProtocolError("no such status")
                return event
            if isinstance(event, h11.InformationalResponse) and event.status_code == 100:
                self._may_upload.set()

    async def _pass_head(self, head: h11.Response) -> None:
        passed = headers.response_headers(list(head.headers), self._visit.port)
        chunked = any(name == b"transfer-encoding" for name, _ in head.headers)
        if chunked or head.status_code in {204, 304}:
            # An answer with the status 304 may have a content-length, but it has no body. With the
            # header, the web server would wait for a body.
            passed = [pair for pair in passed if pair[0] != b"content-length"]
        if not self._body.whole:
            passed.append((b"connection", b"close"))
        self._answering = True
        await self._send(
            {"type": "http.response.start", "status": head.status_code, "headers": passed}
        )

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._box.next_event()
            if event is h11.NEED_DATA:
                try:
                    received = await self._stream.receive(_READ_BYTES)
                except anyio.EndOfStream:
                    received = b""
                self._box.receive_data(received)
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                raise h11.RemoteProtocolError("the server ended without an answer")


class _BrowserLeft(NekroError):
    pass


class _Late(NekroError):
    def __init__(self, problem: PreviewProblem) -> None:
        super().__init__(problem)
        self.problem = problem


@contextmanager
def _within(seconds: float, problem: PreviewProblem) -> Iterator[None]:
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise _Late(problem) from None
