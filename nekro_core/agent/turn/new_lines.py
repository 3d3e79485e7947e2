"""Tells a running turn that the person whom it answers has written again."""

from collections.abc import Awaitable, Callable

import anyio

from nekro_core.chat import Record
from nekro_core.system.errors import NekroError

MOST_RESTARTS = 5
"""Maximum number of times that one turn drops a request because the asker wrote again. Each dropped
request costs its prompt, and a person who never pauses would never get an answer."""


class AskerWroteAgain(NekroError):
    """The asker wrote a new line while nothing of the reply had run or was sent."""


class NewLines:
    """The lines that the asker writes while the turn runs.

    ``listen`` passes new messages to the plugins' hooks. ``corrects`` says of a record, after the
    hooks have seen it, whether it may change what the asker wants: it is no command, no plugin took
    it, and it is not for another person.
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
        """Wait until the asker has written a line that may change what they want. The request shows
        the records up to the sequence number ``after`` already."""
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
