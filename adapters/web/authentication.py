"""Authenticates clients by access token, session or one-time link, and limits failed attempts."""

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
MAX_LINKS = 32
"""Maximum number of one-time links that are valid at once. If there are more, the oldest link
becomes invalid."""


class LoginAttempts:
    """Counts wrong tokens, for each address and in total, and decides who must wait.

    A right token is accepted even after many wrong ones: otherwise a stranger could lock the owner
    out. So this limit does not protect against guessing. It only reduces load and log lines. The
    length of the secrets protects against guessing: the access token that the bot makes and a
    session's signature have 256 random bits, and a link's token has 192. A million tries a second
    for a year are 2**45 tries.
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
    """Return the key under which an address's wrong tokens are counted. For IPv6 it is the /64
    network of the address, because one customer owns the whole network. Empty if the text is no
    address, because a proxy may send any text."""
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
    """Checks the access token, and makes and checks sessions and one-time links.

    A session is a signed expiry time, so it stays valid after a restart and needs no table. The
    signing key is made from the session secret *and* the access token, so a new access token ends
    all sessions.
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
        # Browsers share cookies between the ports of a host. Each bot has its own cookie name, so
        # that two bots on a host do not overwrite each other's session.
        self.cookie = "nekro_session_" + hashlib.sha256(session_secret.encode()).hexdigest()[:8]

    def is_token(self, offered: str) -> bool:
        """Whether this is the access token. The check takes the same time for all wrong tokens."""
        return hmac.compare_digest(offered.encode("utf-8", "replace"), self.access_token.encode())

    def new_session(self) -> str:
        """Make a session, which is the value of the session cookie."""
        body = f"{int(self._clock() + self.session_s)}.{secrets.token_urlsafe(12)}"
        return f"{body}.{self._sign(body)}"

    def is_session(self, offered: str) -> bool:
        """Whether this is a session that the bot signed and that has not expired."""
        body, _, signature = offered.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(body).encode()):
            return False
        return float(body.partition(".")[0]) > self._clock()

    def new_link_token(self) -> str:
        """Make a token for a login link. It can be used once, and becomes invalid when the bot
        stops."""
        token = secrets.token_urlsafe(24)
        self._links[token] = None
        while len(self._links) > MAX_LINKS:
            self._links.popitem(last=False)
        return token

    def redeem(self, offered: str) -> bool:
        """Use a link token and make it invalid. False if it does not exist or was used before."""
        # A dictionary lookup is safe here: its time does not help to guess 192 random bits.
        return self._links.pop(offered, self) is None

    def _sign(self, body: str) -> str:
        digest = hmac.digest(self._key, body.encode("utf-8", "replace"), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
