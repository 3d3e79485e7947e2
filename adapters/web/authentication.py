"""Authenticates by token, session or one-time link, and limits failed attempts."""

import base64
import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Callable

from loguru import logger

from nekro_core.api.adapter import RateWindow

Clock = Callable[[], float]
"""Seconds since 1970."""

MAX_FAILURES = 10
"""Wrong tokens of one address in `FAILURE_WINDOW_S` before it is told to wait."""
MAX_FAILURES_IN_ALL = 100
"""The same of all addresses together."""
FAILURE_WINDOW_S = 60.0
MAX_ADDRESSES = 1024
"""Addresses remembered; a flood from more of them forgets the oldest."""
MAX_LINKS = 32
"""One-time links that wait to be used; over it the oldest no longer works."""


class LoginAttempts:
    """Counts wrong tokens, of each address and of all together, and says who has had enough.

    That is against noise and load. What keeps a guesser out is the length of the secrets: the
    access token that we make has 256 random bits, as has a session's mark, and a link's token has
    192. A guesser with a million tries a second for a year has 2**45 of them, so a right token is
    never refused for the sake of wrong ones before it: who could do that would lock the owner out.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, RateWindow] = OrderedDict()
        self._in_all = RateWindow((MAX_FAILURES_IN_ALL, FAILURE_WINDOW_S))

    def __len__(self) -> int:
        """How many addresses are remembered."""
        return len(self._failures)

    def wait_s(self, address: str) -> float:
        """Seconds until a wrong token of the address counts as a try again; 0 where it does now."""
        now, own = self._clock(), self._failures.get(rate_limit_key(address))
        return max(own.wait_s(now) if own else 0.0, self._in_all.wait_s(now))

    def failed(self, address: str) -> None:
        """Remember one failure."""
        who, now = rate_limit_key(address), self._clock()
        own = self._failures.setdefault(who, RateWindow((MAX_FAILURES, FAILURE_WINDOW_S)))
        own.take(now)
        self._in_all.take(now)
        if own.wait_s(now) or self._in_all.wait_s(now):
            # No failure is counted while it waits, so that this is at most one line a try that is.
            logger.warning(
                "{} wrong access tokens within {:g} s, the last one from {}; more are refused now",
                self._in_all.count(now),
                FAILURE_WINDOW_S,
                who,
            )
        self._failures.move_to_end(who)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)


def rate_limit_key(address: str) -> str:
    """Under which name the wrong tokens of an address are counted: of IPv6 its network of 64 bits,
    all of which one customer has. Empty where it is no address: a proxy may hand on anything."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, 64), strict=False))
        parsed = parsed.ipv4_mapped
    return str(parsed)


class Authenticator:
    """Knows the access token, makes sessions and one-time links, and checks all three.

    A session is a signed expiry, so it outlives a restart and needs no table. The key is made from
    the session secret *and* the access token: a new access token ends every session.
    """

    def __init__(
        self, *, access_token: str, session_secret: str, session_s: float, clock: Clock
    ) -> None:
        self.access_token = access_token
        self.session_s = session_s
        self.attempts = LoginAttempts(clock)
        self._clock = clock
        self._key = hmac.digest(session_secret.encode(), access_token.encode(), "sha256")
        self._links: OrderedDict[str, None] = OrderedDict()
        # Browsers share cookies between the ports of a host: two bots must not log each other out.
        self.cookie = "nekro_session_" + hashlib.sha256(session_secret.encode()).hexdigest()[:8]

    def is_token(self, offered: str) -> bool:
        """Whether this is the access token; takes the same time for every wrong one."""
        return hmac.compare_digest(offered.encode("utf-8", "replace"), self.access_token.encode())

    def new_session(self) -> str:
        """The value of a session cookie."""
        body = f"{int(self._clock() + self.session_s)}.{secrets.token_urlsafe(12)}"
        return f"{body}.{self._sign(body)}"

    def is_session(self, offered: str) -> bool:
        """Whether this is a session of ours that has not run out."""
        body, _, signature = offered.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(body).encode()):
            return False
        return float(body.partition(".")[0]) > self._clock()

    def new_link_token(self) -> str:
        """A token for the address that is printed: good once, until the bot ends."""
        token = secrets.token_urlsafe(24)
        self._links[token] = None
        while len(self._links) > MAX_LINKS:
            self._links.popitem(last=False)
        return token

    def redeem(self, offered: str) -> bool:
        """Use up a link token. False where there is no such one, or no longer."""
        # A dictionary's look-up time tells nothing useful about 192 random bits used once.
        return self._links.pop(offered, self) is None

    def _sign(self, body: str) -> str:
        digest = hmac.digest(self._key, body.encode("utf-8", "replace"), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
