"""Limits how often passwords and codes of the second factor may be tried."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Hashable

from loguru import logger

from nekro_core.system.rate_window import RateWindow

MAX_GUESSES = 5
"""After this number of wrong passwords or codes for one name from one address within
`GUESS_WINDOW_S`, the address must wait."""
MAX_GUESSES_OF_ADDRESS = 30
"""Maximum number of tries, right or wrong, from one address within `GUESS_WINDOW_S`, for all names
together. It is larger than `MAX_GUESSES`, because the people of one office share an address."""
MAX_GUESSES_OF_NAME = 50
"""Maximum number of tries for one name from all addresses within `GUESS_WINDOW_S`. A stranger with
many addresses can use up all these tries. The person then cannot log in by password, only by a link
or a token."""
GUESS_WINDOW_S = 900.0
MAX_GUESSES_IN_ALL = 100
"""Maximum number of tries for all names from all addresses within `GUESS_IN_ALL_S`."""
GUESS_IN_ALL_S = 60.0
MAX_GUESSED = 16_384
"""Maximum number of names, addresses and pairs of name and address that are remembered. With
`MAX_GUESSES_IN_ALL` tries a minute, at most 4,500 new ones appear within `GUESS_WINDOW_S`."""


class GuessLimit:
    """Limits how often passwords and codes may be tried: for each name, each address, each pair of
    them, and in total.

    While a client must wait, even the right password is refused. So a guesser does not learn that a
    password was right.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._windows: OrderedDict[Hashable, RateWindow] = OrderedDict()
        self._in_all = RateWindow((MAX_GUESSES_IN_ALL, GUESS_IN_ALL_S))

    def __len__(self) -> int:
        """Return how many names, addresses and pairs are remembered."""
        return len(self._windows)

    def take(self, name: str, address: str) -> float:
        """Count one try. Call this before the try is checked, so that simultaneous tries are
        counted too.

        Returns the seconds that the client must wait. If this is not 0, the try was not counted and
        must not be checked.
        """
        now, who = self._clock(), rate_limit_key(address)
        windows = [
            self._in_all,
            self._window(("pair", name, who), MAX_GUESSES),
            self._window(("address", who), MAX_GUESSES_OF_ADDRESS),
            self._window(("name", name), MAX_GUESSES_OF_NAME),
        ]
        wait_s = max(window.wait_s(now) for window in windows)
        if wait_s <= 0:
            for window in windows:
                window.take(now)
            if windows[1].wait_s(now):
                logger.warning(
                    "{} wrong passwords or codes within {:g} s from {}",
                    MAX_GUESSES,
                    GUESS_WINDOW_S,
                    who,
                )
        return max(0.0, wait_s)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the tries for this name from this address. They still count for the name, for the
        address and in total."""
        self._windows.pop(("pair", name, rate_limit_key(address)), None)

    def _window(self, key: Hashable, most: int) -> RateWindow:
        window = self._windows.setdefault(key, RateWindow((most, GUESS_WINDOW_S)))
        self._windows.move_to_end(key)
        while len(self._windows) > MAX_GUESSED:
            self._windows.popitem(last=False)
        return window


def rate_limit_key(address: str) -> str:
    """Return the key under which the tries of an address are counted. For IPv6 it is the /64
    network of the address, because one customer owns the whole network. Returns an empty text if
    ``address`` is not an IP address; a proxy may send any text."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, 64), strict=False))
        parsed = parsed.ipv4_mapped
    return str(parsed)
