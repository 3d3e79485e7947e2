"""Reads something once for several callers that need it at about the same time."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

_Read = TypeVar("_Read")


class SharedReading(Generic[_Read]):
    """Shares readings. Each caller gets the result of a reading that began after its call, so
    nothing that happened before the call is missing. Callers that come while a reading is under way
    share the next one."""

    def __init__(self, read: Callable[[], Awaitable[_Read]]) -> None:
        self._read = read
        self._lock = anyio.Lock()
        self._begun = 0
        self._done: tuple[int, _Read] | None = None

    async def get(self) -> _Read:
        """Read, or wait for a reading that another caller needs too. Raises the errors of the
        reading. If a reading fails, only the caller that made it gets the error; the next caller
        reads again."""
        wanted = self._begun + 1
        async with self._lock:
            done = self._done
            if done is None or done[0] < wanted:
                self._begun += 1
                done = self._done = (self._begun, await self._read())
            if not self._lock.statistics().tasks_waiting:
                self._done = None  # Nobody shares it any more, and it may be large.
            return done[1]
