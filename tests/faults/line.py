"""Makes a network connection between a platform and the bot, which can freeze, be slow, or be
cut."""

from contextlib import AsyncExitStack, suppress
from typing import Self

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup


class Line:
    """An async context manager that listens on ``port`` and forwards to a port of this machine.

    A frozen line is half-open: both ends consider themselves connected, and no byte passes.
    """

    def __init__(self, to_port: int) -> None:
        self.port = 0
        self.delay_s = 0.0
        self.ends_before = b""
        """If this is not empty, the first connection in which these bytes arrive is cut, from
        whichever side they come. The bytes are not forwarded. This happens only once."""
        self.then_ends_before = b""
        """What `ends_before` becomes when it has cut a connection."""
        self.freezes_before = b""
        """If this is not empty, the line freezes when these bytes arrive. `thaw` forwards them."""
        self._to = to_port
        self._open = anyio.Event()
        self._open.set()
        self._calls: set[anyio.CancelScope] = set()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(SocketAttribute.local_port)
        await self._stack.enter_async_context(listener)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(listener.serve, self._serve)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    def freeze(self) -> None:
        """Forward nothing from now on, and close no connection."""
        self._open = anyio.Event()

    @property
    def frozen(self) -> bool:
        """Whether the line forwards nothing."""
        return not self._open.is_set()

    def thaw(self) -> None:
        """Forward again, beginning with the bytes that were held back."""
        self._open.set()

    def cut(self) -> None:
        """Close all connections. New ones are accepted and are not frozen."""
        for call in [*self._calls]:
            call.cancel()
        self._open.set()

    async def _serve(self, near: SocketStream) -> None:
        with anyio.CancelScope() as call:
            self._calls.add(call)
            try:
                async with (
                    near,
                    await anyio.connect_tcp("127.0.0.1", self._to) as far,
                    anyio.create_task_group() as both,
                ):
                    both.start_soon(self._forward, near, far, both)
                    both.start_soon(self._forward, far, near, both)
            except OSError:
                pass  # Nothing listens on the target port; the near connection is closed.
            finally:
                self._calls.discard(call)

    async def _forward(self, source: SocketStream, sink: SocketStream, both: TaskGroup) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                data = await source.receive()
                if self.ends_before and self.ends_before in data:
                    self.ends_before, self.then_ends_before = self.then_ends_before, b""
                    break
                if self.freezes_before and self.freezes_before in data:
                    self.freezes_before = b""
                    self.freeze()
                await self._open.wait()
                await anyio.sleep(self.delay_s)
                await sink.send(data)
        both.cancel_scope.cancel()
