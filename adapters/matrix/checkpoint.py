"""Stores where to continue after a restart: never past an event that is not stored."""

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
    """One round of events. ``token`` is where the next one begins."""

    token: str
    broken: anyio.Event
    left: int = 1
    """Jobs that are not done, and one for the page itself until it is `closed`."""
    failed: bool = False

    def job(self, job: Job) -> Job:
        """The job, noting when it is done. One that fails stops the reading: the page is read
        again from its beginning, and what was taken in before is known as a duplicate."""
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
        """There are no more jobs than those so far."""
        self.left -= 1


@dataclass(eq=False, slots=True)
class SyncCheckpoint:
    """The place of one account, kept in a file. ``broken`` is set once a job failed."""

    path: Path
    broken: anyio.Event = field(default_factory=anyio.Event)
    token: str = ""
    _stored: str = ""
    _pages: "deque[SyncPage]" = field(default_factory=deque)

    def load(self) -> None:
        """Read where an earlier process was; nothing where there was none."""
        try:
            stored = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            logger.error("{} cannot be read, so what was missed stays missed: {}", self.path, error)
            return
        if isinstance(stored, dict) and isinstance(stored.get("since"), str):
            self.token = self._stored = stored["since"]

    def page(self, token: str) -> SyncPage:
        """A new round, which ends at ``token``."""
        page = SyncPage(token, self.broken)
        self._pages.append(page)
        return page

    async def keep(self) -> None:
        """Move on to the end of the last page of which, and of all before it, every job is done."""
        while self._pages and self._pages[0].left == 0 and not self._pages[0].failed:
            self.token = self._pages.popleft().token
        if self.token == self._stored:
            return
        data = json.dumps({"since": self.token}).encode()
        try:
            await anyio.to_thread.run_sync(write_whole, self.path, data)
        except OSError as error:
            logger.error("{} cannot be written; a restart would read again: {}", self.path, error)
            return
        self._stored = self.token

    async def forget(self) -> None:
        """Begin anew with the present: the server does not know the place any more."""
        self._pages.clear()
        self.token = self._stored = ""
        await anyio.Path(self.path).unlink(missing_ok=True)
