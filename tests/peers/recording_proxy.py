"""An HTTP proxy that records the requests and answers and can be told to fail.

It forwards the bot's requests to a real server on 127.0.0.1. The pages in `docs/wire/` are written
from its records. With it, tests check what a bot does when its server is stopped, does not answer
or refuses a request.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream, TaskGroup, TaskStatus

_PIECE = 65_536
_NOT_PASSED_ON = {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"host"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. ``status`` is 0 if there was no answer."""

    method: str
    path: str
    sent: bytes = field(repr=False)
    status: int = 0
    got: bytes = field(default=b"", repr=False)

    @property
    def body(self) -> Any:
        """The request's body, decoded if it is JSON, else None."""
        return _parsed(self.sent)

    @property
    def answer(self) -> Any:
        """The answer's body, decoded if it is JSON, else None."""
        return _parsed(self.got)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Answer the request with this, and do not forward it."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Silence:
    """Do not answer. If ``done`` is true, the server receives the request all the same."""

    done: bool = False


Disturbance = Refusal | Silence
Change = Callable[[str, Any], Any]
"""Replaces an answer: takes a request's path and the decoded answer, returns the new answer."""
Rule = Callable[[str, str], Disturbance | None]
"""Chooses a fault: takes a request's method and path, returns the fault or None to forward it."""


class RecordingProxy:
    """Listens while its context is open. A test may change ``rule`` and ``change`` at any time."""

    def __init__(self, target_port: int) -> None:
        self.exchanges: list[Exchange] = []
        self.rule: Rule = lambda _method, _path: None
        self.change: Change | None = None
        self.port = 0
        self._target = target_port
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup
        self._listening: anyio.CancelScope | None = None
        self._changed = anyio.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    async def go_away(self) -> None:
        """Stop listening and break every connection."""
        assert self._listening is not None
        self._listening.cancel()
        await anyio.sleep(0.05)

    async def come_back(self) -> None:
        """Listen again on the same port."""
        await self._tasks.start(self._listen)

    def disturb_once(self, part: str, disturbance: Disturbance) -> None:
        """Apply this fault only to the next request whose path contains ``part``."""
        waiting = [disturbance]
        self.rule = lambda _, path: waiting.pop() if waiting and part in path else None

    async def until(self, condition: Callable[[], bool], timeout: float = 30) -> None:
        """Wait until a condition on the exchanges holds."""
        with anyio.fail_after(timeout):
            while not condition():
                await self._changed.wait()

    def of(self, method: str, part: str) -> list[Exchange]:
        """The exchanges with this method whose paths contain ``part``."""
        return [each for each in self.exchanges if each.method == method and part in each.path]

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        listener = await anyio.create_tcp_listener(
            local_host="127.0.0.1", local_port=self.port, reuse_port=True
        )
        self.port = listener.extra(SocketAttribute.local_port)
        with anyio.CancelScope() as self._listening:
            async with listener, anyio.create_task_group() as connections:
                task_status.started()
                await listener.serve(self._serve, connections)

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            try:
                await _Side(stream).serve(self._answer)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.RemoteProtocolError):
                return  # the client has closed the connection

    async def _answer(
        self, request: h11.Request, body: bytes
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes] | None:
        """The status, headers and body for a request. With `Silence` this never returns."""
        method, path = request.method.decode(), request.target.decode()
        match self.rule(method, path):
            case Refusal(status, answer):
                data = json.dumps(answer).encode()
                self._note(Exchange(method, path, body, status, data))
                return status, [(b"content-type", b"application/json")], data
            case Silence(done):
                if done:
                    await self._ask(request, body)
                self._note(Exchange(method, path, body))
                await anyio.sleep_forever()
        status, headers, data = await self._ask(request, body)
        if self.change is not None and (answer := _parsed(data)) is not None:
            data = json.dumps(self.change(path, answer)).encode()
        self._note(Exchange(method, path, body, status, data))
        return status, headers, data

    async def _ask(
        self, request: h11.Request, body: bytes
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        async with _connected(self._target) as side:
            return await side.ask(request, body, self._target)

    def _note(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self._changed.set()
        self._changed = anyio.Event()


Answering = Callable[[h11.Request, bytes], Any]


class _Side:
    """One HTTP connection. The proxy is its server or its client."""

    def __init__(self, stream: SocketStream, role: type[h11.CLIENT] = h11.SERVER) -> None:
        self._stream = stream
        self._wire = h11.Connection(role, max_incomplete_event_size=1 << 20)

    async def serve(self, answer: Answering) -> None:
        """Answer requests one after another."""
        while True:
            request = await self._next()
            if not isinstance(request, h11.Request):
                return
            body = await self._body()
            said = await answer(request, body)
            if said is None:
                return
            status, headers, data = said
            await self._send(
                h11.Response(status_code=status, headers=[*headers, _length(data)]), data
            )
            if self._wire.our_state is h11.MUST_CLOSE:
                return
            self._wire.start_next_cycle()

    async def ask(
        self, request: h11.Request, body: bytes, port: int
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Send a request to the server and return its answer."""
        headers = [pair for pair in request.headers if pair[0] not in _NOT_PASSED_ON]
        headers += [(b"host", f"127.0.0.1:{port}".encode()), (b"connection", b"close")]
        again = h11.Request(
            method=request.method, target=request.target, headers=[*headers, _length(body)]
        )
        await self._send(again, body)
        response = await self._next()
        assert isinstance(response, h11.Response), response
        kept = [pair for pair in response.headers if pair[0] not in _NOT_PASSED_ON]
        return response.status_code, kept, await self._body()

    async def _send(self, head: h11.Request | h11.Response, data: bytes) -> None:
        await self._stream.send(self._wire.send(head) or b"")
        if data:
            await self._stream.send(self._wire.send(h11.Data(data=data)) or b"")
        ending = self._wire.send(h11.EndOfMessage())
        if ending:
            await self._stream.send(ending)

    async def _next(self) -> Any:
        while True:
            event = self._wire.next_event()
            if event is not h11.NEED_DATA:
                return event
            try:
                self._wire.receive_data(await self._stream.receive(_PIECE))
            except anyio.EndOfStream:
                self._wire.receive_data(b"")

    async def _body(self) -> bytes:
        parts = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            parts += event.data
        return bytes(parts)


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[_Side]:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        yield _Side(stream, h11.CLIENT)


def _length(data: bytes) -> tuple[bytes, bytes]:
    return b"content-length", str(len(data)).encode()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
