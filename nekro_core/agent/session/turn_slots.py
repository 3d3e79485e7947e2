"""How many turns run at once, over all chats."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import anyio


class TurnSlots:
    """So many at once, and of those that were cut off again and again only one: where it is one of
    them that ends the process, the others have not begun and are not given up with it."""

    def __init__(self, count: int, longest_queue_s: float) -> None:
        """``longest_queue_s`` is how long one waits: later an answer would come out of nowhere."""
        self._free = anyio.CapacityLimiter(count)
        self._suspects = anyio.Lock()
        self._longest_queue_s = longest_queue_s

    @asynccontextmanager
    async def acquire(self, *, exclusive: bool) -> AsyncIterator[bool]:
        """Have a slot for one turn. An ``exclusive`` turn also waits for every other exclusive one.
        False where no slot becomes free in time."""
        async with self._suspects if exclusive else nullcontext():
            with anyio.move_on_after(self._longest_queue_s) as waiting:
                await self._free.acquire()
            if waiting.cancelled_caught:
                yield False
                return
            try:
                yield True
            finally:
                self._free.release()
