"""Searches the texts of chat members with a plugin's regular expression, within a time limit.

Python's ``re`` blocks the process while it backtracks: ``(a+)+$`` and thirty characters take years.
The ``regex`` package has a time limit, which costs 6 µs for each search.
"""

import time
from collections.abc import Callable
from typing import Any

from nekro_core.system.errors import NekroError

LIMIT_S = 0.05
"""Seconds of one search. A pattern for a command needs microseconds."""
REST_S = 5.0
"""Seconds without a search after one that took too long. So a member who writes for such a pattern
can block at most a hundredth of the time."""


class PatternProblem(NekroError):
    """A text is not a regular expression; the message says why."""


class BoundedPattern:
    """A compiled pattern.

    Args:
        pattern: The regular expression.
        told: Called with the seconds of a search that was given up.
        clock: A monotonic clock.

    Raises:
        PatternProblem: The text is not a regular expression.
    """

    def __init__(
        self,
        pattern: str,
        told: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import regex  # noqa: PLC0415 - 0.1 s and 3 MB, which few bots need

        try:
            self._pattern = regex.compile(pattern)
        except regex.error as error:
            raise PatternProblem(str(error)) from None
        self._told = told
        self._clock = clock
        self._rests_until = 0.0

    def groups(self, text: str) -> dict[str, str | None] | None:
        """The named groups of the first match.

        None if nothing matches, if the search takes too long, and for `REST_S` after that.
        """
        began = self._clock()
        if began < self._rests_until:
            return None
        try:
            match: Any = self._pattern.search(text, timeout=LIMIT_S)
        except TimeoutError:
            ended = self._clock()
            self._rests_until = ended + REST_S
            self._told(ended - began)
            return None
        return match.groupdict() if match else None
