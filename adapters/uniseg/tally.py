"""How much of what an account brought is not stored yet.

A platform that keeps what nobody has confirmed (Telegram's updates, Satori's sequence) is told to
forget it only once it is stored here: whatever ends the bot before then, nothing is lost.
"""

import anyio


class Tally:
    """Counts events from their arrival until they are stored or passed over."""

    def __init__(self) -> None:
        self._open = 0
        self._failed = False
        self._progress = anyio.Event()

    def begin(self) -> None:
        """An event came."""
        self._open += 1

    def end(self, *, stored: bool = True) -> None:
        """It is dealt with; not ``stored`` where the store failed longer than our patience."""
        self._open -= 1
        self._failed |= not stored
        self._progress.set()
        self._progress = anyio.Event()

    async def settle(self) -> bool:
        """Wait until nothing is open. False where something since the last time was not stored: it
        should be brought again."""
        while self._open:
            await self._progress.wait()
        stored, self._failed = not self._failed, False
        return stored
