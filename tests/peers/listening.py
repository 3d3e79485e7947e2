"""The HTTP peers share this code: a server on 127.0.0.1, and a function that reads requests from a
raw connection."""

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Self

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. The header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes
    method: str = ""


async def read_request(reader: BufferedByteReceiveStream) -> Request:
    """Read the next request of a connection."""
    head = (await reader.receive_until(b"\r\n\r\n", 65_536)).decode("latin-1")
    line, *fields = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    body = await reader.receive_exactly(int(headers.get("content-length", "0")))
    method, path, *_ = line.split(" ")
    return Request(path, headers, body, method)


class LoopbackServer(ABC):
    """Listens while its context is open. Leaving the context cuts every connection."""

    def __init__(self, port: int = 0) -> None:
        self.base_url = ""
        self.connections = 0
        self._port = port
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup

    @abstractmethod
    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        """Read one request and answer it. Return True if the connection stays open."""

    async def __aenter__(self) -> Self:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self._port)
        await self._stack.enter_async_context(listener)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self.base_url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
        self._tasks.start_soon(listener.serve, self._serve_connection)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    async def _serve_connection(self, stream: SocketStream) -> None:
        self.connections += 1
        async with stream:
            reader = BufferedByteReceiveStream(stream)
            # A client may leave at any time, even in the middle of a request. That is not an error.
            with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                while await self.serve(stream, reader):
                    pass
