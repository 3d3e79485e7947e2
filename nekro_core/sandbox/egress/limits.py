"""What bounds the way out of boxes, and how much goes out of and into those of one owner."""

from collections.abc import Callable
from dataclasses import dataclass

from nekro_core.system.errors import NekroError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """Of one box, but ``bytes_per_hour``: of all boxes of one owner."""

    connections: int = 32
    """At once. pip opens ten."""
    bytes_per_hour: int = 1024 * _MIB
    """Both ways together. A large scientific stack is half of it."""
    request_s: float = 10.0
    """For the head of a request to arrive."""
    idle_s: float = 120.0
    """Without a byte either way."""
    connection_s: float = 3600.0
    """From the first byte to the last."""


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
