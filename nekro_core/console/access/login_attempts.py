"""Counts wrong tokens, and says who must wait."""

from collections import OrderedDict
from collections.abc import Callable

from loguru import logger

from nekro_core.operator.identity.guess_limit import rate_limit_key
from nekro_core.system.rate_window import RateWindow

Clock = Callable[[], float]
"""Returns the time in seconds since 1970."""

MAX_FAILURES = 10
"""After this number of wrong tokens within `FAILURE_WINDOW_S`, an address must wait."""
MAX_FAILURES_IN_ALL = 100
"""After this number of wrong tokens of all addresses within `FAILURE_WINDOW_S`, every address must
wait."""
FAILURE_WINDOW_S = 60.0
MAX_ADDRESSES = 1024
"""Maximum number of addresses that are remembered. If there are more, the address whose last
failure is oldest is forgotten."""


class LoginAttempts:
    """Counts wrong tokens, for each address and in total, and decides who must wait.

    A right token is accepted even after many wrong tokens; otherwise a stranger could lock the
    owner out. So this limit does not protect against guessing. It only reduces load and log lines.
    The length of the secrets protects against guessing: the access token that the bot makes and a
    session's signature have 256 random bits, and a link's token has 192. For comparison, a million
    tries a second for a year are 2**45 tries.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, RateWindow] = OrderedDict()
        self._in_all = RateWindow((MAX_FAILURES_IN_ALL, FAILURE_WINDOW_S))

    def __len__(self) -> int:
        """Return the number of remembered addresses."""
        return len(self._failures)

    def wait_s(self, address: str) -> float:
        """Return the seconds that the address must wait because of wrong tokens; 0 if none."""
        now, own = self._clock(), self._failures.get(rate_limit_key(address))
        return max(own.wait_s(now) if own else 0.0, self._in_all.wait_s(now))

    def failed(self, address: str) -> None:
        """Count one wrong token of an address."""
        who, now = rate_limit_key(address), self._clock()
        own = self._failures.setdefault(who, RateWindow((MAX_FAILURES, FAILURE_WINDOW_S)))
        own.take(now)
        self._in_all.take(now)
        if own.wait_s(now) or self._in_all.wait_s(now):
            # Wrong tokens while an address must wait are not counted, so that they write no log
            # lines.
            logger.warning(
                "{} wrong access tokens within {:g} s, the last one from {}; more are refused now",
                self._in_all.count(now),
                FAILURE_WINDOW_S,
                who,
            )
        self._failures.move_to_end(who)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
