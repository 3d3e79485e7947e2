"""Searches texts of chat members with the regular expression of a plugin. Each search has a time
limit.

Python's ``re`` blocks the process while it backtracks: to search a text of thirty characters with
``(a+)+$`` can take years. The package ``regex`` has a time limit, which adds 6 µs to each search.
"""

import time
from collections.abc import Callable
from typing import Any

from nekro_core.system.errors import NekroError

LIMIT_S = 0.05
"""Time limit for one search, in seconds. The pattern of a command needs microseconds."""
REST_S = 5.0
"""Seconds for which a pattern is not searched after a search took too long. So with one pattern, a
chat member who writes slow texts on purpose can block the bot for at most a hundredth of the
time."""


class PatternProblem(NekroError):
    """A text is not a regular expression. The message says why."""


class BoundedPattern:
    """A compiled regular expression whose searches have a time limit.

    Args:
        pattern: The regular expression.
        told: A function that is called when a search has exceeded the time limit, with the seconds
            that the search took.
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
        import regex  # noqa: PLC0415 - it takes 0.1 s and 3 MB, and few bots need it

        try:
            self._pattern = regex.compile(pattern)
        except regex.error as error:
            raise PatternProblem(str(error)) from None
        self._told = told
        self._clock = clock
        self._rests_until = 0.0

    def groups(self, text: str) -> dict[str, str | None] | None:
        """Return the named groups of the first match.

        Returns None if nothing matches or the search takes too long. After a search that took too
        long, this method does not search for `REST_S` seconds and returns None.
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
