"""Who may come in: the secrets, the sessions, the one-time links, and what is tried too often."""

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds since 1970."""

MAX_FAILURES = 10
"""Wrong tokens that one address may offer in `FAILURE_WINDOW_S`. The tokens have 256 bits, so the
bound is against noise and load, not against guessing."""
FAILURE_WINDOW_S = 60.0
MAX_ADDRESSES = 1024
"""Addresses remembered; a flood from more of them forgets the oldest."""
MAX_LINKS = 32
"""One-time links that wait to be used; over it the oldest no longer works."""


class Attempts:
    """Counts failures per address and says when an address has had enough."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Seconds until the address may try again; 0 where it may now."""
        times = self._failures.get(address)
        now = self._clock()
        while times and times[0] <= now - FAILURE_WINDOW_S:
            times.popleft()
        if not times or len(times) < MAX_FAILURES:
            return 0.0
        return times[0] + FAILURE_WINDOW_S - now

    def failed(self, address: str) -> None:
        """Remember one failure."""
        times = self._failures.setdefault(address, deque(maxlen=MAX_FAILURES))
        times.append(self._clock())
        self._failures.move_to_end(address)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)


class Door:
    """Knows the access token, makes sessions and one-time links, and checks all three.

    A session is a signed expiry, so it outlives a restart and needs no table. The key is made from
    the session secret *and* the access token: a new access token ends every session.
    """

    def __init__(
        self, *, access_token: str, session_secret: str, session_s: float, clock: Clock
    ) -> None:
        self.access_token = access_token
        self.session_s = session_s
        self.attempts = Attempts(clock)
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
