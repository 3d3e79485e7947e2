"""Keeps the newest log lines in memory, and hands new lines to followers."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nekro_core.system.logs.line import LogFilter, LogLine

MOST_LINES = 5000
"""Maximum number of lines in memory."""
MOST_BYTES = 8 * 1024 * 1024
"""Approximate maximum size of the lines in memory, in bytes."""
QUEUE = 500
"""Number of lines that may wait for a follower. If the follower is so slow that more lines would
wait, it misses lines and gets a `MissedLines`."""


@dataclass(frozen=True, slots=True)
class MissedLines:
    """A follower was so slow that it missed this number of lines."""

    count: int


class LogRing:
    """Keeps the newest lines, at most ``lines`` lines and ``size`` bytes. `add` may be called from
    any thread. All other methods must be called in the thread of the event loop."""

    def __init__(self, *, lines: int = MOST_LINES, size: int = MOST_BYTES) -> None:
        self._most_lines = lines
        self._most_bytes = size
        self._lines: deque[LogLine] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._followers: list[_Follower] = []

    def add(self, line: LogLine) -> None:
        """Add a line, and drop the oldest lines if there are too many."""
        with self._lock:
            self._lines.append(line)
            self._bytes += line.size
            while len(self._lines) > self._most_lines or self._bytes > self._most_bytes:
                self._bytes -= self._lines.popleft().size
            followers = [*self._followers]
        for follower in followers:
            follower.offer(line)

    def newest(
        self, wanted: LogFilter | None = None, *, before: int = 0, limit: int = 200
    ) -> Sequence[LogLine]:
        """Return the ``limit`` newest lines that match, newest first. If ``before`` is the number
        of a line, only older lines are returned."""
        wanted = wanted or LogFilter()
        with self._lock:
            lines = [*self._lines]
        found: list[LogLine] = []
        for line in reversed(lines):
            if before and line.number >= before:
                continue
            if wanted.matches(line):
                found.append(line)
                if len(found) >= limit:
                    break
        return found

    def forget(self, unwanted: Callable[[LogLine], bool]) -> int:
        """Remove the lines for which ``unwanted`` returns True. Return their number."""
        with self._lock:
            kept = [line for line in self._lines if not unwanted(line)]
            gone = len(self._lines) - len(kept)
            self._lines = deque(kept)
            self._bytes = sum(line.size for line in kept)
        return gone

    @asynccontextmanager
    async def follow(
        self, wanted: LogFilter | None = None, *, queue: int = QUEUE
    ) -> AsyncIterator[AsyncIterator[LogLine | MissedLines]]:
        """Follow the new lines that match. The iterator never ends. At most ``queue`` lines wait
        for the reader. If there are more, the next lines are left out, and a `MissedLines` takes
        their place."""
        follower = _Follower(wanted or LogFilter(), queue, asyncio.get_running_loop())
        with self._lock:
            self._followers.append(follower)
        try:
            yield follower.lines()
        finally:
            with self._lock:
                self._followers.remove(follower)

    @property
    def follower_count(self) -> int:
        """Return how many readers follow the log now."""
        return len(self._followers)


class _Follower:
    """The queue of one reader."""

    def __init__(self, wanted: LogFilter, queue: int, loop: asyncio.AbstractEventLoop) -> None:
        self._wanted = wanted
        self._queue = queue
        self._loop = loop
        self._waiting: deque[LogLine | MissedLines] = deque()
        self._lock = threading.Lock()
        self._news = asyncio.Event()

    def offer(self, line: LogLine) -> None:
        """Queue a line, from any thread."""
        if not self._wanted.matches(line):
            return
        with self._lock:
            first = not self._waiting
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, MissedLines):
                self._waiting[-1] = MissedLines(last.count + 1)
            elif len(self._waiting) >= self._queue:
                self._waiting.append(MissedLines(1))
            else:
                self._waiting.append(line)
        if first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    async def lines(self) -> AsyncIterator[LogLine | MissedLines]:
        """Yield the queued lines, and wait for more."""
        while True:
            with self._lock:
                line = self._waiting.popleft() if self._waiting else None
                if line is None:
                    self._news.clear()
            if line is None:
                await self._news.wait()
            else:
                yield line
