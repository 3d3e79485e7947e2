"""Begins, finds and ends the sessions of browsers."""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from nekro_core.store import ConsolePerson, ConsoleSession
from nekro_core.store.console_logins import ConsoleSessionRepository

_SECRET_BYTES = 32
_LONGEST = 256
"""Maximum length of the value of a session cookie. A longer value cannot be from this bot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIn:
    """A session and its person."""

    person: ConsolePerson
    session: ConsoleSession


class SessionDirectory:
    """The browsers that are logged in.

    Only a keyed hash of each session's cookie is stored. If the key changes, all sessions end.
    """

    def __init__(
        self,
        sessions: ConsoleSessionRepository,
        *,
        key: bytes,
        session_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.session_s = session_s
        self._sessions = sessions
        self._key = key
        self._clock = clock

    async def begin(
        self, person: ConsolePerson, *, address: str, user_agent: str, replaced: str = ""
    ) -> str:
        """Begin a session of a person, and end the session that the browser had before.

        Args:
            person: The person who has just logged in.
            address: The browser's network address.
            user_agent: What the browser calls itself.
            replaced: The value of the session cookie that the browser sent; may be empty.

        Returns:
            The value of the session cookie; empty if the person may no longer log in.
        """
        secret, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock()
        added = await self._sessions.add(
            person_id=person.person_id,
            session_hash=self._hash(secret),
            created=now,
            expires=now + self.session_s,
            address=address,
            user_agent=_printable(user_agent),
            replaced=self._hash(replaced) if replaced else "",
        )
        return secret if added else ""

    async def find(self, secret: str) -> LoggedIn | None:
        """Get the session of a cookie; None if it has ended or the person is not active."""
        if not secret or len(secret) > _LONGEST:
            return None
        found = await self._sessions.find(self._hash(secret), self._clock())
        return LoggedIn(session=found[0], person=found[1]) if found else None

    async def of(self, person: ConsolePerson) -> list[ConsoleSession]:
        """Get a person's sessions, the most recently used first."""
        return await self._sessions.of(person.person_id, self._clock())

    async def end(self, session_id: int) -> bool:
        """End a session. False if there is none."""
        return await self._sessions.end(session_id)

    async def end_all(self, person: ConsolePerson, *, but: int = 0) -> int:
        """End all sessions of a person except ``but``. Returns how many were ended."""
        return await self._sessions.end_all(person.person_id, but=but)

    def _hash(self, secret: str) -> str:
        return hmac.digest(self._key, secret.encode("utf-8", "replace"), "sha256").hex()


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text[:256])
