"""A file server that never answers a request. Only ``/cat.png`` is served, at once."""

import base64
from contextlib import suppress

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.peers.listening import LoopbackServer, read_request

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class SilentFiles(LoopbackServer):
    """The server. ``waiting`` counts the requests that wait for an answer. ``most`` is the highest
    value of this count. When ``hangs_up`` is set, the server closes their connections."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = self.most = 0
        self.hangs_up = anyio.Event()

    @property
    def address(self) -> str:
        """The server's address with its port."""
        return self.base_url.removesuffix("/v1")

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        """Answer a request for ``/cat.png``. Hold every other request until its client leaves."""
        path = (await read_request(reader)).path
        if path == "/cat.png":
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(PNG)}\r\n\r\n"
            await stream.send(head.encode() + PNG)
            return True
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            async with anyio.create_task_group() as tasks:

                async def hang_up() -> None:
                    await self.hangs_up.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(hang_up)
                with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                    await reader.receive_exactly(1)  # this ends when the client leaves
                tasks.cancel_scope.cancel()
        finally:
            self.waiting -= 1
        return False
