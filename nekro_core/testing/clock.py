"""Provides a clock that a test can set forward."""

import time
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
"""The time at which `FakeClock` begins: 9:00 UTC on a Monday. It has no special meaning."""


class FakeClock:
    """The clock of a bot under test. It begins at `BEGINNING` and runs as fast as real time. A test
    can set it forward; this does not shorten `anyio.sleep`.

    Args:
        now: The time at which the clock begins. A time without a zone is in the machine's zone.
    """

    def __init__(self, now: datetime = BEGINNING) -> None:
        self._began = time.monotonic()
        self._start = now.timestamp()
        self._jumped = 0.0

    def wall(self) -> float:
        """Read the clock as Unix time.

        Returns:
            The clock's time, in seconds since 1970.
        """
        return self._start + self.monotonic()

    def monotonic(self) -> float:
        """Read the seconds since the clock was made. The value never decreases.

        Returns:
            The real seconds since the clock was made, plus all seconds by which a test has set it
            forward.
        """
        return time.monotonic() - self._began + self._jumped

    @property
    def now(self) -> datetime:
        """The clock's time, in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def advance(self, by: float | timedelta) -> None:
        """Set the clock forward by a duration.

        Args:
            by: Seconds, or a `datetime.timedelta`; 0 or more.

        Raises:
            ValueError: ``by`` is negative.
        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if seconds < 0:
            raise ValueError(f"a clock goes forward, not by {seconds:g} s")
        self._jumped += seconds

    def set(self, now: datetime) -> None:
        """Set the clock forward to a time.

        Args:
            now: The new time. A time without a zone is in UTC.

        Raises:
            ValueError: ``now`` is earlier than the clock's time.
        """
        aware = now if now.tzinfo else now.replace(tzinfo=UTC)
        self.advance(aware - self.now)
