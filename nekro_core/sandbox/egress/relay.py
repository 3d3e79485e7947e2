"""Bytes both ways between a box and the outside, within bounds."""

from collections.abc import Callable

import anyio
from anyio import CancelScope
from anyio.abc import ByteStream

READ_BYTES = 64 * 1024
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""What a stream raises whose other side is no longer there."""


class IdleTimeout:
    """Ends what it bounds after some seconds in which nothing moved."""

    def __init__(self, seconds: float) -> None:
        self.scope = CancelScope()
        self._seconds = seconds
        self.moved()

    def moved(self) -> None:
        """Something did."""
        self.scope.deadline = anyio.current_time() + self._seconds


async def relay(
    inside: ByteStream, outside: ByteStream, *, idle_s: float, count: Callable[[int], None]
) -> None:
    """Carry bytes until both sides are done, either breaks, or neither moves for ``idle_s``.

    ``count`` is told of each piece before it is passed on; what it raises ends the relay.
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
        except Exception as error:  # noqa: BLE001 (raised below, where no group wraps it)
            if not isinstance(error, GONE):
                failures.append(error)
            everything.cancel()

    with idle.scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carry, inside, outside, tasks.cancel_scope)
            tasks.start_soon(carry, outside, inside, tasks.cancel_scope)
    for failure in failures:
        raise failure
