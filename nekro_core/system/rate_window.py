"""Limits how often something may happen in a period, for example how often a message is sent to a
chat."""

from collections import deque


class RateWindow:
    """Stores when something happened, and computes when it may happen again.

    It stores only the last times. Their number is the largest count of ``bounds``. All times are
    seconds of one clock; the caller passes them.

    Args:
        bounds: Pairs of a count and a period in seconds. At most this count of events may happen in
            the period. A count of 0 means no bound.
    """

    __slots__ = ("_bounds", "_times")

    def __init__(self, *bounds: tuple[int, float]) -> None:
        self._bounds: tuple[tuple[int, float], ...] = ()
        self._times: deque[float] = deque(maxlen=0)
        self.set_bounds(*bounds)

    def set_bounds(self, *bounds: tuple[int, float]) -> None:
        """Change the bounds. Events that are stored still count.

        Args:
            bounds: The new bounds, as in the constructor.
        """
        wanted = tuple(bound for bound in bounds if bound[0])
        if wanted != self._bounds:
            self._bounds = wanted
            self._times = deque(self._times, max((count for count, _ in wanted), default=0))

    def take(self, now: float) -> None:
        """Count one event, even if a bound has been reached.

        Args:
            now: The time of the event.
        """
        self._times.append(now)

    def wait_s(self, now: float) -> float:
        """Return how long to wait until one more event is within all bounds.

        Args:
            now: The current time.

        Returns:
            The seconds; 0 if an event may happen now.
        """
        times, wait_s = self._times, 0.0
        for count, seconds in self._bounds:
            if len(times) >= count:
                wait_s = max(wait_s, times[-count] + seconds - now)
        return wait_s

    def count(self, now: float) -> int:
        """Return how many events happened within the longest period.

        Args:
            now: The current time.

        Returns:
            Their number, at most the largest count. If it is 0, the caller may drop this object.
        """
        longest = max((seconds for _, seconds in self._bounds), default=0.0)
        return sum(at > now - longest for at in self._times)
