"""Defines the limits of the boxes' network access, and counts the traffic of an owner."""

from collections.abc import Callable
from dataclasses import dataclass

from nekro_core.system.errors import NekroError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """Limits of one box. Only ``bytes_per_hour`` is a limit of all boxes of an owner together."""

    connections: int = 32
    """Maximum number of connections that are open at the same time. pip opens ten."""
    bytes_per_hour: int = 1024 * _MIB
    """Maximum number of bytes in an hour, in both directions together. Installing a large set of
    scientific packages takes half of this."""
    request_s: float = 10.0
    """Longest wait for the head of a request, in seconds."""
    idle_s: float = 120.0
    """After this many seconds without a byte in either direction, a connection ends."""
    connection_s: float = 3600.0
    """Longest time of a connection, in seconds."""


WINDOW_S = 3600.0


class TrafficBudgetExceeded(NekroError):
    """The owner's boxes have used up their traffic of this hour."""


class TrafficBudget:
    """Limits the bytes of one owner to ``bytes_per_hour``, both directions together. ``clock`` is
    monotonic."""

    def __init__(self, bytes_per_hour: int, clock: Callable[[], float]) -> None:
        self._most = bytes_per_hour
        self._clock = clock
        self._begun = clock()
        self._spent = 0

    def spend(self, size: int) -> None:
        """Add ``size`` bytes to the count. Raises `TrafficBudgetExceeded` if the budget is used up,
        even if ``size`` is 0."""
        now = self._clock()
        if now - self._begun >= WINDOW_S:
            self._begun, self._spent = now, 0
        if self._spent + size > self._most or self._spent >= self._most:
            raise TrafficBudgetExceeded
        self._spent += size
