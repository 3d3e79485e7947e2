"""Gives boxes their user ids. Each box has two ids, which no other running box of this process
has."""

import secrets
from dataclasses import dataclass

_FIRST, _COUNT = 1_000_000_000, 800_000_000
"""The first id and the number of ids. All these ids are far above the ids that machines give to
people and services."""
_FIRST_REMAPPED, _COUNT_REMAPPED = 10_000, 50_000
"""The first id and the number of ids if the engine maps user ids. A container then usually has only
65,536 ids."""


@dataclass(frozen=True, slots=True)
class BoxUserIds:
    """The user ids of one box: one for its code, one for the programs that write its uploads."""

    code: int
    uploads: int


class UserIdAllocator:
    """Gives boxes their user ids. Containers of an engine do not have separate user namespaces. If
    two containers used the same id, the kernel would treat them as one user. They would have the
    same permissions and share limits (processes, keys, watches). ``remapped`` says whether the
    engine maps the ids of its containers to others."""

    def __init__(self, *, remapped: bool) -> None:
        self._first = _FIRST_REMAPPED if remapped else _FIRST
        self._count = _COUNT_REMAPPED if remapped else _COUNT
        self._taken: set[int] = set()

    def take(self) -> BoxUserIds:
        """Take a pair of ids for a new box."""
        while True:
            # The ids are random, so that two bots on one engine rarely use the same ids.
            user = self._first + 2 * secrets.randbelow(self._count // 2)
            if user not in self._taken:
                self._taken.add(user)
                return BoxUserIds(code=user, uploads=user + 1)

    def give_back(self, users: BoxUserIds) -> None:
        """Free the pair. The caller has made sure that all processes of the box have ended."""
        self._taken.discard(users.code)
