"""Finds out who makes a request: by the session of a browser, an API token, the owner's token or a
login link."""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from nekro_core.console.access.login_attempts import Clock, LoginAttempts
from nekro_core.operator.identity import Identity
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import ConsolePerson

MAX_LINKS = 32
"""Maximum number of one-time links that are valid at once. If there are more, the oldest link
becomes invalid."""
MAX_HALF_LOGINS = 256
"""Maximum number of logins that wait for the second factor. If there are more, the oldest ends."""
HALF_LOGIN_S = 300.0
"""Seconds in which the code of the second factor must follow the password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Who makes a request, as the guard found out.

    Attributes:
        actor: The person, at the time of the request.
        person_id: The person's number, which does not change with their name; 0 for the owner's
            token, which belongs to no person.
        session_id: The number of the browser's session; 0 for a program with a token.
        look_again: Reads again who uses this session or token. Returns None if the session or token
            no longer works.
    """

    actor: Actor
    person_id: int
    session_id: int = 0
    look_again: Callable[[], Awaitable["Visit | None"]] = field(repr=False)

    async def current(self) -> Actor | None:
        """Return the person with their present name and role; None if the session or token no
        longer works. A page that stays open calls this before each action."""
        visit = await self.look_again()
        return visit.actor if visit else None


class Authenticator:
    """Checks tokens and sessions, and makes and redeems one-time links.

    The owner's token belongs to the bot's machine and not to a person: it is stored in the data
    folder. It works without a second factor, as do the links that the bot prints when it starts.
    """

    def __init__(self, identity: Identity, *, access_token: str, cookie: str, clock: Clock) -> None:
        self.identity = identity
        self.access_token = access_token
        self.cookie = cookie
        self.attempts = LoginAttempts(clock)
        self._clock = clock
        self._links: OrderedDict[str, Visit | None] = OrderedDict()
        self._half: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def is_token(self, offered: str) -> bool:
        """Return True if ``offered`` is the owner's token. The check takes the same time for all
        wrong tokens."""
        return hmac.compare_digest(offered.encode("utf-8", "replace"), self.access_token.encode())

    async def by_token(self, offered: str, address: str) -> Visit | None:
        """Return who offers a token; None if the token is wrong. Raises `StoreUnavailable`."""

        async def again() -> Visit | None:
            return await self.by_token(offered, address)

        if self.is_token(offered):
            name = await self.identity.people.owner_name()
            actor = Actor(
                name=name, role=AccessRole.OWNER, origin=RequestOrigin.API, address=address
            )
            return Visit(actor=actor, person_id=0, look_again=again)
        used = await self.identity.tokens.find(offered)
        if used is None:
            return None
        actor = Actor(
            name=used.person.name,
            role=AccessRole(used.person.role),
            origin=RequestOrigin.API,
            address=address,
            scopes=used.token.scopes,
        )
        return Visit(actor=actor, person_id=used.person.person_id, look_again=again)

    async def by_session(self, offered: str, address: str) -> Visit | None:
        """Return whose session a cookie belongs to; None if there is no such session. Raises
        `StoreUnavailable`."""

        async def again() -> Visit | None:
            return await self.by_session(offered, address)

        found = await self.identity.sessions.find(offered)
        if found is None:
            return None
        actor = Actor(
            name=found.person.name,
            role=AccessRole(found.person.role),
            origin=RequestOrigin.PAGE,
            address=address,
        )
        return Visit(
            actor=actor,
            person_id=found.person.person_id,
            session_id=found.session.session_id,
            look_again=again,
        )

    def new_link(self, visit: Visit | None = None) -> str:
        """Make the token of a login link. The link can be used once. It becomes invalid when the
        bot stops, or when the login of ``visit`` ends. ``visit`` is the person who asks for the
        link and whom the link logs in; None for the owner."""
        token = secrets.token_urlsafe(24)
        self._links[token] = visit
        while len(self._links) > MAX_LINKS:
            self._links.popitem(last=False)
        return token

    async def redeem(self, offered: str) -> ConsolePerson | None:
        """Return the person whom a link's token logs in, and make the token invalid. Returns None
        if there is no such token, if it was used before, or if the login of the person who made it
        has ended.

        A link for the owner logs in the first owner. If there is no owner yet, one is added.
        """
        # A dictionary may be used here: how long the lookup takes does not help to guess 192 random
        # bits.
        if offered not in self._links:
            return None
        visit = self._links.pop(offered)
        if visit is None or not visit.person_id:
            return await self.identity.people.owner()
        # Otherwise somebody who stole a session could make a link and log in with it after the
        # session was ended.
        if await visit.current() is None:
            return None
        return await self.identity.people.numbered(visit.person_id)

    def half_login(self, person: ConsolePerson) -> str:
        """Remember that a person gave the right password. Returns a secret that the form for the
        code sends back."""
        secret = secrets.token_urlsafe(24)
        self._half[secret] = (person.person_id, self._clock() + HALF_LOGIN_S)
        while len(self._half) > MAX_HALF_LOGINS:
            self._half.popitem(last=False)
        return secret

    async def half_logged_in(self, secret: str) -> ConsolePerson | None:
        """Get the person who gave the right password within the last `HALF_LOGIN_S` seconds."""
        person_id, until = self._half.get(secret, (0, 0.0))
        if not person_id or until <= self._clock():
            self._half.pop(secret, None)
            return None
        return await self.identity.people.numbered(person_id)

    def forget_half_login(self, secret: str) -> None:
        """Forget that a person gave the right password, after the right code has followed."""
        self._half.pop(secret, None)


def session_key(session_secret: str, access_token: str) -> bytes:
    """Return the key of the sessions. It is made from both secrets, so a new access token ends all
    sessions."""
    return hmac.digest(session_secret.encode(), access_token.encode(), "sha256")


def cookie_name(session_secret: str) -> str:
    """Return the name of the session cookie. Browsers share cookies between the ports of a host. So
    each bot has its own name for the cookie. Otherwise two bots on a host would overwrite each
    other's session."""
    return "nekro_session_" + hashlib.sha256(session_secret.encode()).hexdigest()[:8]
