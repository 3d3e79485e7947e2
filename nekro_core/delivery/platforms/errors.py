"""Errors of managing accounts.

::

    NekroError
    ├── AccountError
    │   ├── InvalidAccountSettings    the values of a form cannot be used
    │   ├── UnknownAccount            there is no such account
    │   ├── AccountExists             the account is there already
    │   └── AccountLocked             the environment or .env defines the account
    └── ConnectionTestFailed          a connection test found what is wrong
"""

from collections.abc import Mapping
from enum import StrEnum

from nekro_core.system.errors import NekroError


class ConnectionProblem(StrEnum):
    """What is wrong with a connection."""

    NONE = "none"
    """Nothing is wrong."""
    UNREACHABLE = "unreachable"
    """Nobody answers at the address, or the name is unknown."""
    TLS = "tls"
    """The encryption failed: a wrong certificate, or a server without TLS."""
    REFUSED = "refused"
    """The other side answers and refuses the token, the password or the account."""
    NOT_THE_PLATFORM = "not_the_platform"
    """Something answers that does not speak the platform's protocol."""
    TOO_SLOW = "too_slow"
    """No answer came within the time limit."""
    WAITS_FOR_PEER = "waits_for_peer"
    """The other side must open the connection, and it has not done so."""


class AccountError(NekroError, ValueError):
    """Managing an account failed; nothing was changed. The text says why and what to do."""


class InvalidAccountSettings(AccountError):
    """The settings of an account are invalid. The text has a line for each wrong field and none of
    the values, because a value may be a secret.

    Args:
        problems: For each wrong field its path, such as ``imap.port``, and what was expected. The
            path is empty if the fields do not fit each other.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        lines = (f"{path or 'the settings'}: {text}" for path, text in problems.items())
        super().__init__("\n".join(lines))
        self.problems = dict(problems)


class UnknownAccount(AccountError):
    """The adapter has no account with this key."""


class AccountExists(AccountError):
    """The adapter has an account with this key already."""


class AccountLocked(AccountError):
    """The environment or ``.env`` defines the account, so it cannot be changed or removed here."""


class ConnectionTestFailed(NekroError):
    """A connection test failed.

    Args:
        problem: What is wrong.
        words: What a person should know: what came, what was expected, what to do.
    """

    def __init__(self, problem: ConnectionProblem, words: str) -> None:
        super().__init__(words)
        self.problem = problem
