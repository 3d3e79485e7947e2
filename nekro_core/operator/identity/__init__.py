"""Knows the people of the console: names, roles, passwords, second factors, sessions, tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from nekro_core.operator.identity.api_tokens import ApiTokens, TokenUse
from nekro_core.operator.identity.errors import (
    IdentityError,
    InvalidName,
    InvalidToken,
    InvitationSpent,
    LastOwner,
    NameTaken,
    UnknownPerson,
    WeakPassword,
    WrongCode,
)
from nekro_core.operator.identity.guess_limit import GuessLimit
from nekro_core.operator.identity.people import PeopleDirectory, name_key
from nekro_core.operator.identity.second_factor import Enrolment, SecondFactor
from nekro_core.operator.identity.sessions import LoggedIn, SessionDirectory
from nekro_core.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """All that the bot knows of the people of the console."""

    people: PeopleDirectory
    second_factor: SecondFactor
    sessions: SessionDirectory
    tokens: ApiTokens
    guesses: GuessLimit

    @classmethod
    def of(
        cls, store: Store, *, session_key: bytes, session_s: float, clock: Callable[[], float]
    ) -> Self:
        """Make the parts, which read and change the people in ``store``.

        Args:
            store: The open database.
            session_key: The key of the sessions' hashes. If the key changes, all sessions end.
            session_s: Seconds for which a browser stays logged in.
            clock: Returns the time in seconds since 1970.
        """
        return cls(
            people=PeopleDirectory(store.console_people, store.console_sessions, clock=clock),
            second_factor=SecondFactor(store.console_people, clock=clock),
            sessions=SessionDirectory(
                store.console_sessions, key=session_key, session_s=session_s, clock=clock
            ),
            tokens=ApiTokens(store.console_tokens, clock=clock),
            guesses=GuessLimit(clock),
        )


__all__ = [
    "ApiTokens",
    "Enrolment",
    "GuessLimit",
    "Identity",
    "IdentityError",
    "InvalidName",
    "InvalidToken",
    "InvitationSpent",
    "LastOwner",
    "LoggedIn",
    "NameTaken",
    "PeopleDirectory",
    "SecondFactor",
    "SessionDirectory",
    "TokenUse",
    "UnknownPerson",
    "WeakPassword",
    "WrongCode",
    "name_key",
]
