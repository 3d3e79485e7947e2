"""Code that the peers of model protocols share. They send an `Answer` as events of a protocol other
than that of `ScriptedModelServer`, and can fail in the same ways."""

import json
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.peers.listening import LoopbackServer, read_request
from tests.peers.scripted_model import Answer, Asked, Reply, pieces, watch

EventBody = dict[str, Any]


class ProtocolServer(LoopbackServer):
    """A server on 127.0.0.1 for one protocol. ``replies`` are either replies that are used one
    after another, or a function that makes the reply to each request. A request that the protocol
    forbids is answered with 400."""

    path = ""

    def __init__(
        self, replies: Iterable[Reply] | Callable[[Asked], Reply], *, api_key: str = ""
    ) -> None:
        super().__init__()
        self.requests: list[Asked] = []
        left = deque() if callable(replies) else deque(replies)
        self._reply = replies if callable(replies) else lambda _: left.popleft()
        self._api_key = api_key

    @abstractmethod
    def key_of(self, asked: Asked) -> str:
        """The key that a request carries."""

    @abstractmethod
    def fault(self, asked: Asked) -> str:
        """Return why the protocol forbids a request; empty if it does not."""

    @abstractmethod
    def error_body(self, status: int, message: str, answer: Answer) -> EventBody:
        """The body of an answer with an error status."""

    @abstractmethod
    def error_event(self, answer: Answer) -> EventBody:
        """An error inside a stream."""

    @abstractmethod
    def begin(self, asked: Asked) -> Iterator[EventBody]:
        """The events before the first text."""

    @abstractmethod
    def thought(self, text: str) -> Iterator[EventBody]:
        """The events of a thought."""

    @abstractmethod
    def text(self, text: str) -> Iterator[EventBody]:
        """The events of a piece of text."""

    @abstractmethod
    def calls(self, answer: Answer, *, cut: bool) -> Iterator[EventBody]:
        """The events of function calls. With ``cut``, the last one lacks its end."""

    @abstractmethod
    def end(self, asked: Asked, answer: Answer, said: str) -> Iterator[EventBody]:
        """The events after the last text."""

    @abstractmethod
    def models(self) -> EventBody:
        """The answer to a request for the list of models."""

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        request = await read_request(reader)
        body = json.loads(request.body) if request.body else {}
        asked = Asked(request.path, request.headers, body, sent=request.body)
        if self._api_key and self.key_of(asked) != self._api_key:
            refused = self.error_body(401, "invalid key", Answer())
            await send_whole(stream, 401, refused)
            return True
        if asked.path.endswith("/models"):
            await send_whole(stream, 200, self.models())
            return True
        self.requests.append(asked)
        if asked.path != f"/v1/{self.path}":
            await send_whole(stream, 404, self.error_body(404, "no such address", Answer()))
            return True
        if why := self.fault(asked):
            await send_whole(stream, 400, self.error_body(400, why, Answer()))
            return True
        reply = self._reply(asked)
        answer = Answer(chunks=pieces(reply)) if isinstance(reply, str) else reply
        if answer.status != 200:
            said = self.error_body(answer.status, str(answer.error or "no"), answer)
            await send_whole(stream, answer.status, said, answer.retry_after)
            return True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, reader, asked, tasks)
            with suppress(anyio.BrokenResourceError):
                asked.finished = await self._stream(stream, answer, asked)
            tasks.cancel_scope.cancel()
        return asked.finished

    async def _stream(self, stream: SocketStream, answer: Answer, asked: Asked) -> bool:
        async def send(events: Iterable[EventBody]) -> None:
            for event in events:
                data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
                await stream.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        await stream.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        await send(self.begin(asked))
        for thought in answer.thoughts:
            await send(self.thought(thought))
        said = ""
        for chunk in answer.chunks:
            await anyio.sleep(answer.delay_s)
            assert isinstance(chunk, str), "only texts have events in every protocol"
            said += chunk
            await send(self.text(chunk))
        await send(self.calls(answer, cut=answer.then != "end"))
        match answer.then:
            case "break":
                return False
            case "stall":
                await anyio.sleep_forever()
            case "no_done":
                await stream.send(b"0\r\n\r\n")
                return True
            case "error":
                await send([self.error_event(answer)])
                await stream.send(b"0\r\n\r\n")
                return True
        await send(self.end(asked, answer, said))
        await stream.send(b"0\r\n\r\n")
        return True


async def send_whole(
    stream: SocketStream, status: int, body: EventBody, retry_after: float | None = None
) -> None:
    """Send an answer that is one JSON object."""
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\n"
    if retry_after is not None:
        head += f"Retry-After: {retry_after:g}\r\n"
    await stream.send(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
