"""User ids of boxes: each box has two, which no other living box of this process has."""

import secrets
from dataclasses import dataclass

_FIRST, _COUNT = 1_000_000_000, 800_000_000
"""Far above what systems give to people and services."""
_FIRST_REMAPPED, _COUNT_REMAPPED = 10_000, 50_000
"""Where ids inside are others outside, there are 65,536 of them as a rule."""


@dataclass(frozen=True, slots=True)
class BoxUserIds:
    """The user ids of one box: of its code, and of who writes what the code may only read."""

    code: int
    uploads: int


class UserIdAllocator:
    """An engine gives no user namespace to each container: what is one user inside two of them is
    one user for the kernel, whose limits (processes, keys, watches) and permissions they share."""

    def __init__(self, *, remapped: bool) -> None:
        self._first = _FIRST_REMAPPED if remapped else _FIRST
        self._count = _COUNT_REMAPPED if remapped else _COUNT
        self._taken: set[int] = set()

    def take(self) -> BoxUserIds:
        """A pair for a new box."""
        while True:
            # At random, so that two bots on one engine hardly ever share one.
            user = self._first + 2 * secrets.randbelow(self._count // 2)
            if user not in self._taken:
                self._taken.add(user)
                return BoxUserIds(code=user, uploads=user + 1)

    def give_back(self, users: BoxUserIds) -> None:
        """The box is gone with all its processes."""
        self._taken.discard(users.code)
