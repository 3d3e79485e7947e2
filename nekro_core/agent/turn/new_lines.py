"""Tells a running turn that the person whom it answers has written again."""

from collections.abc import Awaitable, Callable

import anyio

from nekro_core.chat import Record
from nekro_core.system.errors import NekroError

MOST_RESTARTS = 5
"""Maximum number of times that one turn drops a request because the asker wrote again. Each dropped
request costs money. Without a limit, a person who never pauses would never get an answer."""


class AskerWroteAgain(NekroError):
    """The asker wrote a new line before any part of the reply had run or was sent."""


class NewLines:
    """The lines that the asker writes while the turn runs.

    ``listen`` passes new messages to the plugins' hooks. Afterwards ``corrects`` says whether a
    record may change the asker's question. A command, a message that a plugin has handled, and a
    message to another person do not change it.
    """

    def __init__(
        self, listen: Callable[[], Awaitable[None]], corrects: Callable[[Record], bool]
    ) -> None:
        self._listen = listen
        self._corrects = corrects
        self._records: list[Record] = []
        self._news = anyio.Event()
        self._at = 0.0

    def add(self, record: Record) -> None:
        """Add a line that has just arrived."""
        self._records.append(record)
        self._at = anyio.current_time()
        self._news.set()

    async def correction(self, after: int) -> None:
        """Wait until the asker has written a line that may change the question. Lines up to the
        sequence number ``after`` do not count, because the request shows them."""
        while True:
            await self._news.wait()
            records, self._records = self._records, []
            self._news = anyio.Event()
            await self._listen()
            if any(each.seq > after and self._corrects(each) for each in records):
                return

    async def pause(self, quiet_s: float, longest_s: float) -> None:
        """Wait until the asker has written nothing for ``quiet_s`` seconds, at most
        ``longest_s``."""
        with anyio.move_on_after(longest_s):
            left = quiet_s
            while left > 0:
                await anyio.sleep(left)
                left = self._at + quiet_s - anyio.current_time()
