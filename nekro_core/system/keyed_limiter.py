"""A bound on how much happens at once for each of many: chats, hosts."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import anyio


class KeyedLimiter:
    """At most ``each`` at once for any one key; who comes later waits. A key of which nothing
    happens takes no memory."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._used: dict[Hashable, tuple[anyio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """One of the key's places."""
        semaphore, users = self._used.get(key) or (anyio.Semaphore(self._each), 0)
        self._used[key] = semaphore, users + 1
        try:
            async with semaphore:
                yield
        finally:
            semaphore, users = self._used[key]
            if users > 1:
                self._used[key] = semaphore, users - 1
            else:
                del self._used[key]
