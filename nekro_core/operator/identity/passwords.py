"""Hashes passwords with argon2id, in threads.

The package `argon2` is imported for the first password. The import takes 5 ms, and most people log
in with a link.
"""

import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import anyio.to_thread
from anyio import CapacityLimiter

from nekro_core.operator.identity.errors import WeakPassword

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST = 12
"""Minimum number of characters of a password."""
LONGEST = 256
"""Maximum number of characters of a password. It limits the work that a stranger can cause."""
LEAST_DIFFERENT = 5
"""Minimum number of different characters in a password."""
_BESIDE_NAME = 8
"""A password that contains the person's name must have at least this many other characters."""
_AT_ONCE = 2
"""Maximum number of passwords that are hashed at the same time. Each hash takes 19 MiB and 30 ms of
a core."""

_OF_NOBODY = (
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyB0aGlz$"
    "Vq7nZ0JmZ2S1yq0o5rYwq3dQm0b1c2V4a5X6y7Z8A9A"
)
"""A hash that fits no password. If the name is unknown, the password of the login is checked
against this hash, so that the answer takes as long as for a known name."""


class PasswordHashing:
    """Hashes and checks passwords. At most `_AT_ONCE` are hashed at the same time by one object."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(_AT_ONCE)
        self.computed = 0
        """How many hashes were computed."""

    async def hash(self, password: str) -> str:
        """Return the hash of a new password, with its salt and parameters."""
        self.computed += 1
        return await anyio.to_thread.run_sync(_hash, _composed(password), limiter=self._limiter)

    async def matches(self, stored: str, offered: str) -> bool:
        """Return whether ``offered`` is the password of the hash ``stored``.

        If ``stored`` is empty, returns False, after as long a time as for a stored hash.
        """
        self.computed += 1
        return await anyio.to_thread.run_sync(
            _verified, stored or _OF_NOBODY, _composed(offered[:LONGEST]), limiter=self._limiter
        )

    @staticmethod
    def outdated(stored: str) -> bool:
        """Return True if a hash was made with weaker parameters than new hashes are."""
        return bool(stored) and _hasher().check_needs_rehash(stored)


def check_password(password: str, *, name: str) -> None:
    """Check a new password of a person. Raises `WeakPassword`."""
    length = len(password)
    if not SHORTEST <= length <= LONGEST:
        raise WeakPassword(
            f"a password of {length} characters: expected {SHORTEST} to {LONGEST}; "
            "several words are easy to remember"
        )
    if len(set(password)) < LEAST_DIFFERENT:
        raise WeakPassword(
            f"a password that can be guessed: expected at least {LEAST_DIFFERENT} different "
            "characters"
        )
    if name.casefold() in password.casefold() and length - len(name) < _BESIDE_NAME:
        raise WeakPassword("a password that is little more than the name: choose another one")


def _composed(password: str) -> bytes:
    """Return the bytes of a password in Unicode's normal form, because keyboards may encode the
    same character in several ways."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace")


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # noqa: PLC0415 - see above

    # These parameters are the first in the list of OWASP's Password Storage Cheat Sheet (2024) that
    # need less than 20 MiB.
    return PasswordHasher(memory_cost=19_456, time_cost=2, parallelism=1)


def _hash(password: bytes) -> str:
    return _hasher().hash(password)


def _verified(stored: str, offered: bytes) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415 - see above

    try:
        return _hasher().verify(stored, offered)
    except (VerificationError, InvalidHashError):
        return False
