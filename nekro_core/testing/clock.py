"""A clock that a test sets forward."""

import time
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
"""A Monday morning, as good as any other time."""


class FakeClock:
    """The clock of a bot under test. It begins at `BEGINNING`, runs in real time, and a test can
    set it forward. `anyio.sleep` still waits in real time.

    Args:
        now: The time at which it begins. One without a zone is in the machine's.
    """

    def __init__(self, now: datetime = BEGINNING) -> None:
        self._began = time.monotonic()
        self._start = now.timestamp()
        self._jumped = 0.0

    def wall(self) -> float:
        """Seconds since 1970.

        Returns:
            The clock's time, in seconds since 1970.
        """
        return self._start + self.monotonic()

    def monotonic(self) -> float:
        """Seconds since the beginning; never goes back.

        Returns:
            Real seconds since the clock was made, plus all the jumps.
        """
        return time.monotonic() - self._began + self._jumped

    @property
    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def advance(self, by: float | timedelta) -> None:
        """Go forward, by seconds or more.

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
        """Go forward to a time.

        Args:
            now: The time to be. One without a zone is in UTC.

        Raises:
            ValueError: The time is in the clock's past.
        """
        aware = now if now.tzinfo else now.replace(tzinfo=UTC)
        self.advance(aware - self.now)
