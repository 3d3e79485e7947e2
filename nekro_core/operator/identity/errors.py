"""Errors of operations on the people of the console.

::

    NekroError
    └── IdentityError              the base class of these errors
        ├── InvalidName            a name that cannot be shown or typed
        ├── NameTaken              another person has the name
        ├── WeakPassword           too short, too long, or easy to guess
        ├── UnknownPerson          there is no such person
        ├── LastOwner              no active owner would remain
        ├── InvitationSpent        the link was used, has expired or is not known
        ├── WrongCode              a code of the second factor is wrong or was used before
        └── InvalidToken           an API token with impossible values
"""

from nekro_core.system.errors import NekroError


class IdentityError(NekroError):
    """The base class of the errors of operations on the people of the console."""


class InvalidName(IdentityError):
    """A name that cannot be used. The text says what is allowed."""


class NameTaken(IdentityError):
    """Another person has the name, or a name that looks the same."""


class WeakPassword(IdentityError):
    """A password that cannot be used. The text says what is expected. It does not contain the
    password."""


class UnknownPerson(IdentityError):
    """There is no person with this name or number."""


class LastOwner(IdentityError):
    """The change would leave the bot without an active owner."""


class InvitationSpent(IdentityError):
    """The link was used before, has expired, or is not known."""


class WrongCode(IdentityError):
    """A code of the second factor is wrong, or was used before."""


class InvalidToken(IdentityError):
    """An API token cannot be made with these values, or there is no such token."""
