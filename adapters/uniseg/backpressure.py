"""Stops reading the sockets and routes of a stock adapter (an adapter of NoneBot) while too many
events wait.

A stock adapter starts a task for each event and reads the next one. While the store is slow, the
number of tasks would grow without limit. If the socket is not read, its buffer fills, and TCP slows
the platform down.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from anyio.lowlevel import checkpoint
from nonebot.adapters import Adapter
from nonebot.drivers import HTTPServerSetup, Request, Response, WebSocket, WebSocketServerSetup

BACKLOG = 4096
"""Maximum number of events of a platform that wait to join the queues of their chats. While there
are so many, nothing is read from the platform."""

WaitForRoom = Callable[[], Awaitable[None]]


class PacedSocket:
    """Wraps a `WebSocket`. Each read first waits for ``room()``, which returns when there is space
    for another event. All other calls are passed on."""

    def __init__(self, socket: WebSocket, room: WaitForRoom) -> None:
        self._socket = socket
        self._room = room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def receive(self) -> str | bytes:
        """Return the next message, text or bytes."""
        await self.wait_for_room()
        return await self._socket.receive()

    async def receive_text(self) -> str:
        """Return the next message, which must be text."""
        await self.wait_for_room()
        return await self._socket.receive_text()

    async def receive_bytes(self) -> bytes:
        """Return the next message, which must be bytes."""
        await self.wait_for_room()
        return await self._socket.receive_bytes()

    async def wait_for_room(self) -> None:
        """Wait until fewer than `BACKLOG` events wait."""
        # An event is counted when its task begins. So let the task of the last event begin first.
        await checkpoint()
        await self._room()


def with_backpressure(stock: type[Adapter], room: WaitForRoom) -> dict[str, Any]:
    """Return methods for a subclass of ``stock``. Before every read, they wait until ``room()``
    returns."""

    @asynccontextmanager
    async def websocket(self: Adapter, setup: Request) -> AsyncIterator[Any]:
        opened: AbstractAsyncContextManager[WebSocket] = stock.websocket(self, setup)
        async with opened as socket:
            yield PacedSocket(socket, room)

    def setup_websocket_server(self: Adapter, setup: WebSocketServerSetup) -> None:
        async def handle(socket: WebSocket) -> Any:
            return await setup.handle_func(PacedSocket(socket, room))  # type: ignore[arg-type]

        stock.setup_websocket_server(self, replace(setup, handle_func=handle))

    def setup_http_server(self: Adapter, setup: HTTPServerSetup) -> None:
        async def handle(request: Request) -> Response:
            await room()
            return await setup.handle_func(request)

        stock.setup_http_server(self, replace(setup, handle_func=handle))

    return {
        "websocket": websocket,
        "setup_websocket_server": setup_websocket_server,
        "setup_http_server": setup_http_server,
    }
