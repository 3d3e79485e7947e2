"""Limits of the boxes' network access, and the traffic budget of an owner."""

from collections.abc import Callable
from dataclasses import dataclass

from nekro_core.system.errors import NekroError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """Limits of one box. Only ``bytes_per_hour`` is for all boxes of one owner."""

    connections: int = 32
    """Open at the same time. pip opens ten."""
    bytes_per_hour: int = 1024 * _MIB
    """Both directions together. Installing a large scientific stack takes half of it."""
    request_s: float = 10.0
    """Seconds for the head of a request to arrive."""
    idle_s: float = 120.0
    """Seconds without a byte in either direction."""
    connection_s: float = 3600.0
    """Seconds that a connection may last."""


WINDOW_S = 3600.0


class TrafficBudgetExceeded(NekroError):
    """The owner's boxes have used up their traffic of this hour."""


class TrafficBudget:
    """Counts the bytes of one owner per hour, both directions together. ``clock`` is monotonic."""

    def __init__(self, bytes_per_hour: int, clock: Callable[[], float]) -> None:
        self._most = bytes_per_hour
        self._clock = clock
        self._begun = clock()
        self._spent = 0

    def spend(self, size: int) -> None:
        """Count bytes; 0 only checks. Raises `TrafficBudgetExceeded` if the budget is used up."""
        now = self._clock()
        if now - self._begun >= WINDOW_S:
            self._begun, self._spent = now, 0
        if self._spent + size > self._most or self._spent >= self._most:
            raise TrafficBudgetExceeded
        self._spent += size
