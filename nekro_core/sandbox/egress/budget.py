"""How much goes out of and into the boxes of one owner."""

from collections.abc import Callable

from nekro_core.system.errors import NekroError

WINDOW_S = 3600.0


class TrafficBudgetExceeded(NekroError):
    """This owner's boxes have carried all that they may for now."""


class TrafficBudget:
    """Bytes of one owner in each hour, both ways together. ``clock`` is monotonic."""

    def __init__(self, bytes_per_hour: int, clock: Callable[[], float]) -> None:
        self._most = bytes_per_hour
        self._clock = clock
        self._begun = clock()
        self._spent = 0

    def spend(self, size: int) -> None:
        """Count some bytes. Raises `TrafficBudgetExceeded` where they are too many; 0 asks only."""
        now = self._clock()
        if now - self._begun >= WINDOW_S:
            self._begun, self._spent = now, 0
        if self._spent + size > self._most or self._spent >= self._most:
            raise TrafficBudgetExceeded
        self._spent += size
