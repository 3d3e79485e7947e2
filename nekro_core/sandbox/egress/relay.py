"""Relays bytes between a box and a server in both directions, within limits."""

from collections.abc import Callable

import anyio
from anyio import CancelScope
from anyio.abc import ByteStream

READ_BYTES = 64 * 1024
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""The errors of a stream whose connection is closed."""


class IdleTimeout:
    """Cancels ``scope`` if `moved` is not called for some seconds."""

    def __init__(self, seconds: float) -> None:
        self.scope = CancelScope()
        self._seconds = seconds
        self.moved()

    def moved(self) -> None:
        """Restart the timeout, because data was received or sent."""
        self.scope.deadline = anyio.current_time() + self._seconds


async def relay(
    inside: ByteStream, outside: ByteStream, *, idle_s: float, count: Callable[[int], None]
) -> None:
    """Relay bytes until both streams have ended, one of them fails, or no byte is relayed for
    ``idle_s`` seconds.

    ``count`` is called with the size of each piece before the piece is sent. An error of ``count``
    ends the relay and is raised here.
    """
    idle = IdleTimeout(idle_s)
    failures: list[Exception] = []

    async def carry(source: ByteStream, target: ByteStream, everything: CancelScope) -> None:
        try:
            while True:
                try:
                    data = await source.receive(READ_BYTES)
                except anyio.EndOfStream:
                    await target.send_eof()
                    return
                idle.moved()
                count(len(data))
                await target.send(data)
                idle.moved()
        except Exception as error:  # noqa: BLE001 (raised below, outside the task group)
            if not isinstance(error, GONE):
                failures.append(error)
            everything.cancel()

    with idle.scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carry, inside, outside, tasks.cancel_scope)
            tasks.start_soon(carry, outside, inside, tasks.cancel_scope)
    for failure in failures:
        raise failure
