"""Counts the events of an account that are not stored yet.

A platform that keeps what nobody has confirmed (Telegram's updates, Satori's sequence) is told to
forget it only once it is stored here: whatever ends the bot before then, nothing is lost.
"""

import anyio


class PendingEvents:
    """Counts events from their arrival until they are stored or passed over."""

    def __init__(self) -> None:
        self._came = 0
        self._open: dict[int, None] = {}
        self._failed = False
        self._progress = anyio.Event()

    def begin(self) -> int:
        """An event came; its number, for `end`."""
        self._came += 1
        self._open[self._came] = None
        return self._came

    def end(self, number: int, *, stored: bool = True) -> None:
        """It is dealt with; not ``stored`` where the store failed longer than our patience."""
        del self._open[number]
        self._failed |= not stored
        self._progress.set()
        self._progress = anyio.Event()

    async def settle(self) -> bool:
        """Wait until nothing is open of what came so far. False where something was not stored
        since the last time: it should be brought again."""
        last = self._came
        while self._open and next(iter(self._open)) <= last:
            await self._progress.wait()
        stored, self._failed = not self._failed, False
        return stored
