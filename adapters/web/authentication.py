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
"""Wrong tokens from one address within `FAILURE_WINDOW_S` after which it must wait."""
MAX_FAILURES_IN_ALL = 100
"""The same for all addresses together."""
FAILURE_WINDOW_S = 60.0
MAX_ADDRESSES = 1024
"""Most addresses that are remembered. If there are more, the oldest are forgotten."""
MAX_LINKS = 32
"""Most one-time links that are valid at once. If there are more, the oldest becomes invalid."""


class LoginAttempts:
    """Counts wrong tokens, for each address and in total, and says who must wait.

    The limit reduces noise and load. The length of the secrets protects against guessing: the
    access token that we make has 256 random bits, as has a session's signature, and a link's token
    has 192. A million tries a second for a year are 2**45 tries. So a right token is never refused
    because of wrong ones before it: otherwise a stranger could lock the owner out.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, RateWindow] = OrderedDict()
        self._in_all = RateWindow((MAX_FAILURES_IN_ALL, FAILURE_WINDOW_S))

    def __len__(self) -> int:
        """How many addresses are remembered."""
        return len(self._failures)

    def wait_s(self, address: str) -> float:
        """Return the seconds for which the address must wait after wrong tokens; 0 if it need not
        wait."""
        now, own = self._clock(), self._failures.get(rate_limit_key(address))
        return max(own.wait_s(now) if own else 0.0, self._in_all.wait_s(now))

    def failed(self, address: str) -> None:
        """Remember one failure."""
        who, now = rate_limit_key(address), self._clock()
        own = self._failures.setdefault(who, RateWindow((MAX_FAILURES, FAILURE_WINDOW_S)))
        own.take(now)
        self._in_all.take(now)
        if own.wait_s(now) or self._in_all.wait_s(now):
            # Failures during the wait are not counted, so they write no log lines.
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
    """Return the key under which an address's wrong tokens are counted. For IPv6 this is its /64
    network, because one customer has all of it. Empty if the text is no address: a proxy may pass
    on anything."""
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

    A session is a signed expiry time, so it survives a restart and needs no table. The signing key
    is made from the session secret *and* the access token: a new access token ends every session.
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
        # Browsers share cookies between the ports of a host. With different cookie names, two bots
        # do not log each other out.
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
        """Make a token for a login link. It is valid once, until the bot ends."""
        token = secrets.token_urlsafe(24)
        self._links[token] = None
        while len(self._links) > MAX_LINKS:
            self._links.popitem(last=False)
        return token

    def redeem(self, offered: str) -> bool:
        """Use up a link token. False if it does not exist or was used."""
        # The time of a dictionary lookup reveals nothing useful about 192 random bits used once.
        return self._links.pop(offered, self) is None

    def _sign(self, body: str) -> str:
        digest = hmac.digest(self._key, body.encode("utf-8", "replace"), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
