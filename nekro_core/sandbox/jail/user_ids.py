"""Gives each box a separate user id, if the bot runs as root. So no box can access the files of
another box."""

import secrets
from pathlib import Path

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.jail.interpreter import ProcessIdentity, is_root

_HIGHEST = 2**31 - 2
# Systems use the ids below this number for people and services.
_RESERVED_BELOW = 100_000


def mapped_user_ids() -> tuple[int, int]:
    """Return the last range of user ids in this process's user namespace, as two numbers: its first
    id, and the id after its last id."""
    first, end = 0, 0
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, _, count = (int(part) for part in line.split())
        if inside + count > end:
            first, end = inside, inside + count
    return first, min(end, _HIGHEST)


class UserIds:
    """Gives each box a user id that no other running box of this process has. ``start`` is the
    first id and ``count`` the number of ids; without ``start``, the highest ids are used.

    Raises `BackendUnavailable` if the ids do not exist, or if ``start`` is an id that systems use
    although there are enough higher ones."""

    def __init__(self, start: int | None, count: int) -> None:
        self._taken: set[int] = set()
        if not is_root():
            return
        first, end = mapped_user_ids()
        if start is None:
            # The highest ids are used, because systems give low ids to users and services.
            start = max(first, end - count)
            count = end - start
        elif start < _RESERVED_BELOW and end > _RESERVED_BELOW + count:
            raise BackendUnavailable(
                f"NEKRO_SANDBOX__UID_START is {start}, but systems use the ids below "
                f"{_RESERVED_BELOW} for people and services; set it to {_RESERVED_BELOW} or more, "
                "or leave it unset"
            )
        if not (first <= start and start + count <= end and start > 0 and count > 0):
            raise BackendUnavailable(
                f"the user ids {start} to {start + count - 1} do not exist here (there are {first} "
                f"to {end - 1}); set NEKRO_SANDBOX__UID_START and __UID_COUNT to some that do"
            )
        self._start, self._count = start, count

    def take(self) -> ProcessIdentity:
        """Take an id for a new box. If the bot is not root, the identity has no id. Raises
        `BackendUnavailable` if all ids are in use."""
        if not is_root():
            return ProcessIdentity()
        if len(self._taken) >= self._count:
            raise BackendUnavailable(f"all {self._count} user ids for boxes are in use")
        while True:
            # The id is random, so that two bots on one machine rarely use the same id.
            uid = self._start + secrets.randbelow(self._count)
            if uid not in self._taken:
                self._taken.add(uid)
                return ProcessIdentity(uid)

    def give_back(self, identity: ProcessIdentity) -> None:
        """Free the id. The caller must have ended all processes of the box before."""
        if identity.uid is not None:
            self._taken.discard(identity.uid)
