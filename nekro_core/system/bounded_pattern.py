"""A plugin's regular expression over what a chat's members write, which never takes long.

Python's own ``re`` holds the whole process while it backtracks, for years if need be: ``(a+)+$``
and thirty characters are enough. The ``regex`` package counts the time, for 6 µs a search.
"""

import time
from collections.abc import Callable
from typing import Any

from nekro_core.system.errors import NekroError

LIMIT_S = 0.05
"""A pattern that fits a command is through after microseconds."""
REST_S = 5.0
"""How long one that ran over is left alone: nobody can hold up more than a hundredth of the time by
writing for it."""


class PatternProblem(NekroError):
    """Text that is no regular expression; says why."""


class BoundedPattern:
    """A compiled pattern. Raises `PatternProblem`. ``told`` is called with the seconds that a
    search took when it was given up, once a rest."""

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
        """The named groups of the first place that matches; nothing where none does, where it
        takes too long, and while the pattern rests from that."""
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
