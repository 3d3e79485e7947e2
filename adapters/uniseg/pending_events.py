"""Counts the events of an account that are not stored yet.

Some platforms keep events until the bot confirms them (Telegram's updates, Satori's sequence). The
bot confirms an event after it has stored the event, so a crash loses no event.
"""

import anyio


class PendingEvents:
    """Counts events from their arrival until they are stored or skipped."""

    def __init__(self) -> None:
        self._came = 0
        self._open: dict[int, None] = {}
        self._failed = False
        self._progress = anyio.Event()

    def begin(self) -> int:
        """Count a new event, and return the number with which `end` is called for it."""
        self._came += 1
        self._open[self._came] = None
        return self._came

    def end(self, number: int, *, stored: bool = True) -> None:
        """Count an event as done. ``stored`` is False if the store failed in every try."""
        del self._open[number]
        self._failed |= not stored
        self._progress.set()
        self._progress = anyio.Event()

    async def settle(self) -> bool:
        """Wait until all events that have arrived so far are done. Returns False if, since the last
        call, an event could not be stored. The platform should then deliver that event again."""
        last = self._came
        while self._open and next(iter(self._open)) <= last:
            await self._progress.wait()
        stored, self._failed = not self._failed, False
        return stored
