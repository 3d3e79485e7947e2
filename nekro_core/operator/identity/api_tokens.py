"""Makes, finds and revokes the tokens with which programs use the HTTP API."""

import hashlib
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from nekro_core.operator.identity.errors import InvalidToken
from nekro_core.store import ConsolePerson, ConsoleToken
from nekro_core.store.console_logins import ConsoleTokenRepository

PREFIX = "nekro_"
EVERYTHING = "*"
"""The scope of all areas."""
MAX_NAME = 60
MOST_SCOPES = 50
MOST_DAYS = 3660
"""Maximum number of days for which a token works, if it expires at all."""
_SCOPE = re.compile(r"[a-z][a-z0-9_]{0,31}:(?:read|act)|\*:read", re.ASCII)
_SHOWN_LETTERS = 8
"""Number of characters after `PREFIX` that are not secret. People recognize the token by them."""
_SECRET_BYTES = 32
_LONGEST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """A valid token that came with a request, and the person to whom it belongs."""

    person: ConsolePerson
    token: ConsoleToken


class ApiTokens:
    """The tokens of the HTTP API. Only a hash of each token is stored. A token has 256 random bits
    and cannot be guessed, so a fast hash is safe."""

    def __init__(self, tokens: ConsoleTokenRepository, *, clock: Callable[[], float]) -> None:
        self._tokens = tokens
        self._clock = clock

    async def make(
        self, person: ConsolePerson, *, name: str, scopes: Collection[str], days: float = 0
    ) -> tuple[str, ConsoleToken]:
        """Make a token. It may do what ``scopes`` say, but never more than its person may do.

        Args:
            person: The person in whose name programs use the token.
            name: What the person calls it.
            scopes: ``area:read`` or ``area:act``, such as ``turns:read``; ``*:read`` or ``*`` for
                all areas.
            days: How long it works, in days; 0 for ever.

        Returns:
            The token, which cannot be shown again, and what is stored of it.

        Raises:
            InvalidToken: A value is impossible; the text says which.
        """
        label = " ".join(name.split())
        if not label or len(label) > MAX_NAME or not label.isprintable():
            raise InvalidToken(f"the token's name: expected 1 to {MAX_NAME} visible characters")
        if not 0 <= days <= MOST_DAYS:
            raise InvalidToken(f"{days:g} days: expected 0 (for ever) to {MOST_DAYS}")
        if not scopes or len(scopes) > MOST_SCOPES:
            raise InvalidToken(f"{len(scopes)} scopes: expected 1 to {MOST_SCOPES}")
        for scope in scopes:
            if scope != EVERYTHING and not _SCOPE.fullmatch(scope):
                raise InvalidToken(
                    f"the scope {scope[:40]!r}: expected *, or an area with :read or :act, such as "
                    "turns:read"
                )
        shown = PREFIX + secrets.token_hex(_SHOWN_LETTERS // 2)
        secret = f"{shown}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        now = self._clock()
        token = await self._tokens.add(
            person_id=person.person_id,
            token_hash=_hash(secret),
            prefix=shown,
            name=label,
            scopes=frozenset(scopes),
            created=now,
            expires=now + days * 86_400 if days else 0,
        )
        return secret, token

    async def find(self, secret: str) -> TokenUse | None:
        """Get the token that came with a request; None if it is not known, has expired, or its
        person is not active."""
        if not secret.startswith(PREFIX) or len(secret) > _LONGEST:
            return None
        found = await self._tokens.find(_hash(secret), self._clock())
        return TokenUse(token=found[0], person=found[1]) if found else None

    async def all(self) -> list[ConsoleToken]:
        """Get the tokens of all people, oldest first. Expired tokens are included."""
        return await self._tokens.all()

    async def one(self, token_id: int) -> ConsoleToken:
        """Get a token by its number. Raises `InvalidToken`."""
        token = await self._tokens.one(token_id)
        if token is None:
            raise InvalidToken(f"there is no API token {token_id}; it may have been revoked")
        return token

    async def revoke(self, token_id: int) -> bool:
        """Revoke a token. False if there is none."""
        return await self._tokens.revoke(token_id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
