"""Defines what the console shows of its people, their sessions and their API tokens. No view
contains a stored hash or a stored secret."""

from dataclasses import dataclass, field

from nekro_core.operator.roles import AccessRole
from nekro_core.store import ConsolePerson, ConsoleSession, ConsoleToken, PersonState


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonView:
    """A person of the console.

    Attributes:
        name: The name, by which the person logs in.
        role: What the person may do.
        state: ``invited``, ``active`` or ``disabled``.
        has_password: Whether the person can log in with a password.
        has_second_factor: Whether a login also needs a code.
        recovery_codes: How many recovery codes are left. Only in the person's own view.
        created: Seconds since 1970.
        last_seen: When the person last used the console or the API, exact to a minute, in seconds
            since 1970; 0 if this is not known. Only in the list of all people.
    """

    name: str
    role: AccessRole
    state: PersonState
    has_password: bool
    has_second_factor: bool
    recovery_codes: int
    created: float
    last_seen: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationView:
    """A link with which a person chooses a password. It works once and cannot be shown again.

    Attributes:
        name: The person.
        path: The link's path, to be put after the address of the bot.
    """

    name: str
    path: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A browser that is logged in.

    Attributes:
        session_id: The session's number.
        name: The person.
        created: When the person logged in, in seconds since 1970.
        last_used: When the session was last used, exact to a minute.
        expires: When the session ends by itself.
        address: The network address of the login.
        user_agent: What the browser called itself.
    """

    session_id: int
    name: str
    created: float
    last_used: float
    expires: float
    address: str
    user_agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """An API token, without the token itself.

    Attributes:
        token_id: The token's number.
        name: The person in whose name programs use it.
        label: What the person called it.
        prefix: The beginning of the token, by which it can be recognized.
        scopes: What it may do, such as ``turns:read``.
        created: Seconds since 1970.
        expires: When it stops working; 0 for never.
        last_used: When it was last used, exact to a minute; 0 for never.
    """

    token_id: int
    name: str
    label: str
    prefix: str
    scopes: tuple[str, ...]
    created: float
    expires: float
    last_used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was made. The secret cannot be shown again."""

    token: TokenView
    secret: str = field(repr=False)


def person_view(person: ConsolePerson, recovery_codes: int = 0) -> PersonView:
    """Convert a person."""
    return PersonView(
        name=person.name,
        role=AccessRole(person.role),
        state=person.state,
        has_password=bool(person.password_hash),
        has_second_factor=bool(person.totp_secret),
        recovery_codes=recovery_codes,
        created=person.created,
    )


def session_view(session: ConsoleSession, name: str) -> SessionView:
    """Convert a session of the person with this name."""
    return SessionView(
        session_id=session.session_id,
        name=name,
        created=session.created,
        last_used=session.last_used,
        expires=session.expires,
        address=session.address,
        user_agent=session.user_agent,
    )


def token_view(token: ConsoleToken, name: str) -> TokenView:
    """Convert an API token of the person with this name."""
    return TokenView(
        token_id=token.token_id,
        name=name,
        label=token.name,
        prefix=token.prefix,
        scopes=tuple(sorted(token.scopes)),
        created=token.created,
        expires=token.expires,
        last_used=token.last_used,
    )
