"""User ids of boxes: each box has two, which no other living box of this process has."""

import secrets
from dataclasses import dataclass

_FIRST, _COUNT = 1_000_000_000, 800_000_000
"""Far above the ids that systems give to people and services."""
_FIRST_REMAPPED, _COUNT_REMAPPED = 10_000, 50_000
"""Where the engine maps ids, a container usually has only 65,536 of them."""


@dataclass(frozen=True, slots=True)
class BoxUserIds:
    """The user ids of one box: for its code, and for the writer of its uploads."""

    code: int
    uploads: int


class UserIdAllocator:
    """Gives boxes their user ids. An engine does not give each container its own user namespace. So
    for the kernel, a user id in two containers is one user, with shared limits (processes, keys,
    watches) and permissions."""

    def __init__(self, *, remapped: bool) -> None:
        self._first = _FIRST_REMAPPED if remapped else _FIRST
        self._count = _COUNT_REMAPPED if remapped else _COUNT
        self._taken: set[int] = set()

    def take(self) -> BoxUserIds:
        """Take a pair for a new box."""
        while True:
            # At random, so that two bots on one engine rarely share one.
            user = self._first + 2 * secrets.randbelow(self._count // 2)
            if user not in self._taken:
                self._taken.add(user)
                return BoxUserIds(code=user, uploads=user + 1)

    def give_back(self, users: BoxUserIds) -> None:
        """Free the pair, after the end of the box and all its processes."""
        self._taken.discard(users.code)
