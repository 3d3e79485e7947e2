"""Forwards a WebSocket between a browser and a server in a box. Whole messages are forwarded, not
single frames."""

from contextlib import suppress

import anyio
from anyio import CancelScope
from starlette.types import Message
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import Event, State
from websockets.uri import WebSocketURI

from nekro_core.sandbox.hop_headers import Header
from nekro_core.sandbox.preview import headers
from nekro_core.sandbox.preview.problems import PreviewProblem
from nekro_core.sandbox.preview.request import PreviewRequest

_READ_BYTES = 64 * 1024
_MIB = 1024 * 1024
_CLOSE_S = 5.0
"""Longest wait in seconds until the server confirms that the WebSocket is closed."""


class WebSocketBridge:
    """Connects a browser's WebSocket with another WebSocket to the server in the box."""

    def __init__(self, visit: PreviewRequest) -> None:
        self._scope = visit.scope
        self._body = visit.body
        self._send = visit.send
        self._stream = visit.stream
        self._visit = visit
        self._settings = visit.settings
        query = visit.scope["query_string"].decode("ascii")
        path = visit.path.decode("ascii")
        self._box = ClientProtocol(
            WebSocketURI(secure=False, host="localhost", port=80, path=path, query=query),
            subprotocols=visit.scope["subprotocols"] or None,
            max_size=visit.settings.message_mb * _MIB,
        )
        self._writing = anyio.Lock()
        self._early: list[Event] = []
        self._partial = bytearray()
        self._is_text = False

    async def run(self) -> PreviewProblem | None:
        """Forward messages until either side closes. If a problem is returned, the WebSocket was
        not accepted, and the caller must answer with the problem."""
        try:
            with anyio.fail_after(self._settings.answer_s):
                response = await self._shake_hands()
        except TimeoutError:
            return PreviewProblem.LATE_ANSWER
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return PreviewProblem.BROKEN_ANSWER
        if response is None:
            return PreviewProblem.BROKEN_ANSWER
        passed = headers.response_headers(_raw(response), self._visit.port)
        if self._box.state is not State.OPEN:
            return await self._pass_refusal(response, passed)
        await self._send(
            {
                "type": "websocket.accept",
                "subprotocol": self._box.subprotocol,
                "headers": [pair for pair in passed if pair[0] == b"set-cookie"],
            }
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._to_box, tasks.cancel_scope)
            await self._from_box()
            tasks.cancel_scope.cancel()
        return None

    async def _shake_hands(self) -> Response | None:
        request = self._box.connect()
        del request.headers["Host"]
        for name, value in headers.request_headers(
            self._scope["headers"], scheme=self._settings.scheme
        ):
            if name != b"content-length":
                request.headers[name.decode("ascii")] = value.decode("latin-1")
        self._box.send_request(request)
        await self._flush()
        while self._box.handshake_exc is None:
            try:
                self._box.receive_data(await self._stream.receive(_READ_BYTES))
            except anyio.EndOfStream:
                self._box.receive_eof()
            events = self._box.events_received()
            if events and isinstance(events[0], Response):
                self._early = events[1:]
                return events[0]
        return None

    async def _pass_refusal(
        self, response: Response, passed: list[Header]
    ) -> PreviewProblem | None:
        """Forward the HTTP answer with which the server refused the WebSocket. It can be a login
        page or an answer with the status 404."""
        offered = "websocket.http.response" in self._scope.get("extensions", {})
        if response.status_code < 200 or response.status_code >= 600 or not offered:
            return PreviewProblem.BROKEN_ANSWER
        passed = [pair for pair in passed if pair[0] != b"content-length"]
        start = {"status": response.status_code, "headers": passed}
        await self._send({"type": "websocket.http.response.start", **start})
        body = bytes(response.body or b"")
        await self._send({"type": "websocket.http.response.body", "body": body})
        return None

    async def _to_box(self, everything: CancelScope) -> None:
        try:
            while True:
                message = await self._body.next()
                if message["type"] == "websocket.disconnect":
                    break
                text = message.get("text")
                if text is not None:
                    self._box.send_text(text.encode("utf-8", "replace"))
                else:
                    self._box.send_binary(message.get("bytes") or b"")
                await self._flush()
            code = message.get("code", 1005)
            if code in {1005, 1006}:
                self._box.send_close()
            else:
                self._box.send_close(code, message.get("reason") or "")
            await self._flush()
        except (InvalidState, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # `_from_box` notices the end too and sends the close message to the browser.
        await anyio.sleep(_CLOSE_S)
        everything.cancel()

    async def _from_box(self) -> None:
        events = self._early
        try:
            while True:
                for event in events:
                    if isinstance(event, Frame):
                        await self._pass_frame(event)
                await self._flush()
                if self._box.close_expected():
                    break
                self._box.receive_data(await self._stream.receive(_READ_BYTES))
                events = self._box.events_received()
        except (anyio.EndOfStream, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        with suppress(OSError):  # The browser may have disconnected.
            await self._send(self._closing())

    async def _pass_frame(self, frame: Frame) -> None:
        if frame.opcode in {Opcode.TEXT, Opcode.BINARY}:
            self._is_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return
        # The frames are added to a bytearray and not to a list, so that empty frames need no
        # memory.
        self._partial += frame.data
        if not frame.fin:
            return
        data, self._partial = bytes(self._partial), bytearray()
        if not self._is_text:
            await self._send({"type": "websocket.send", "bytes": data})
            return
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self._box.fail(1007, "text that is not UTF-8")
        else:
            await self._send({"type": "websocket.send", "text": text})

    def _closing(self) -> Message:
        """Return the close message for the browser. The protocol forbids sending the codes 1005,
        1006 and 1015."""
        close = self._box.close_rcvd
        if close is None or self._box.parser_exc is not None:
            sent = self._box.close_sent
            code = sent.code if sent is not None and close is None else 1011
            return {"type": "websocket.close", "code": code, "reason": ""}
        if close.code in {1005, 1006, 1015}:
            return {"type": "websocket.close", "code": 1000}
        return {"type": "websocket.close", "code": close.code, "reason": close.reason}

    async def _flush(self) -> None:
        async with self._writing:
            for data in self._box.data_to_send():
                if data:
                    await self._stream.send(data)


def _raw(response: Response) -> list[Header]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in response.headers.raw_items()
    ]
