"""Stores the position from which events are read after a restart. All events before this position
have been processed."""

import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from loguru import logger

from nekro_core.api.adapter import write_whole

Job = Callable[[], Awaitable[None]]


@dataclass(eq=False, slots=True)
class SyncPage:
    """The events of one answer to ``/sync``. ``token`` is the position after these events."""

    token: str
    broken: anyio.Event
    left: int = 1
    """Number of jobs that are not done, plus one until `closed` is called."""
    failed: bool = False

    def job(self, job: Job) -> Job:
        """Wrap a job so that the page counts it. If the job fails, the connection ends, and the
        whole page is read again. The inbox then refuses the events that it has stored already."""
        self.left += 1

        async def noted() -> None:
            try:
                await job()
            except BaseException:
                self.failed = True
                self.broken.set()
                raise
            self.left -= 1

        return noted

    def closed(self) -> None:
        """Record that the page gets no further jobs."""
        self.left -= 1


@dataclass(eq=False, slots=True)
class SyncCheckpoint:
    """The position of one account, stored in a file. ``broken`` is set when a job has failed."""

    path: Path
    broken: anyio.Event = field(default_factory=anyio.Event)
    token: str = ""
    _stored: str = ""
    _pages: "deque[SyncPage]" = field(default_factory=deque)

    def load(self) -> None:
        """Read the position that an earlier process stored, if there is one."""
        try:
            stored = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            logger.error("{} cannot be read; missed events are not read: {}", self.path, error)
            return
        if isinstance(stored, dict) and isinstance(stored.get("since"), str):
            self.token = self._stored = stored["since"]

    def page(self, token: str) -> SyncPage:
        """Begin a page that ends at ``token``."""
        page = SyncPage(token, self.broken)
        self._pages.append(page)
        return page

    async def keep(self) -> None:
        """Move the position past the oldest pages whose jobs are all done, and store it."""
        while self._pages and self._pages[0].left == 0 and not self._pages[0].failed:
            self.token = self._pages.popleft().token
        if self.token == self._stored:
            return
        data = json.dumps({"since": self.token}).encode()
        try:
            await anyio.to_thread.run_sync(write_whole, self.path, data)
        except OSError as error:
            logger.error("{} cannot be written; a restart reads events again: {}", self.path, error)
            return
        self._stored = self.token

    async def forget(self) -> None:
        """Delete the position, because the server no longer accepts it. From then on, only new
        events are read."""
        self._pages.clear()
        self.token = self._stored = ""
        await anyio.Path(self.path).unlink(missing_ok=True)
