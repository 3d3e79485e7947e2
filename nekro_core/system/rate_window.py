"""Limits how often something may happen in a time: sends to a chat, turns of a sender."""

from collections import deque


class RateWindow:
    """Remembers when something happened and says when it may happen again.

    The memory is bounded by the largest count. Times are seconds of one clock, which the caller
    passes in.

    Args:
        bounds: Pairs of a count and the seconds in which it may happen that often. A count of 0
            sets no bound.
    """

    __slots__ = ("_bounds", "_times")

    def __init__(self, *bounds: tuple[int, float]) -> None:
        self._bounds = tuple(bound for bound in bounds if bound[0])
        most = max((count for count, _ in self._bounds), default=0)
        self._times: deque[float] = deque(maxlen=most)

    def take(self, now: float) -> None:
        """Count one more, even if a bound is reached already.

        Args:
            now: The time.
        """
        self._times.append(now)

    def wait_s(self, now: float) -> float:
        """How long until one more is within all bounds.

        Args:
            now: The time.

        Returns:
            Seconds, 0 where one more may happen now.
        """
        times, wait_s = self._times, 0.0
        for count, seconds in self._bounds:
            if len(times) >= count:
                wait_s = max(wait_s, times[-count] + seconds - now)
        return wait_s

    def count(self, now: float) -> int:
        """How many happened within the longest bound. The result is at most the largest count.

        Args:
            now: The time.

        Returns:
            Their number. If it is 0, the window can be dropped.
        """
        longest = max((seconds for _, seconds in self._bounds), default=0.0)
        return sum(at > now - longest for at in self._times)
