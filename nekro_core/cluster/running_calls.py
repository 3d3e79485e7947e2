"""Lets the platform calls that a gateway makes for workers end before the gateway ends, and lets no
others begin."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from nekro_core.system.errors import NekroError


class GatewayEnds(NekroError):
    """The gateway ends, so it makes no more platform calls. Another gateway, or this one after its
    restart, can make the call later."""


class RunningCalls:
    """Counts the requests of workers that a gateway carries out now. Most of them are platform
    calls."""

    def __init__(self) -> None:
        self._running = 0
        self._ending = False
        self._none_runs = anyio.Event()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Carry out one request in this block. Raises `GatewayEnds` after `finish` was called."""
        if self._ending:
            raise GatewayEnds("the gateway ends; the call can be made later")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._none_runs.set()

    async def finish(self, within_s: float) -> bool:
        """Let no more requests begin, and wait until those that run have ended. Returns False if
        some still run after ``within_s`` seconds."""
        self._ending = True
        with anyio.move_on_after(within_s):
            while self._running:
                self._none_runs = anyio.Event()
                await self._none_runs.wait()
        return not self._running
