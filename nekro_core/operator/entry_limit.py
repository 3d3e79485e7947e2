"""Limits how many entries of the audit log a viewer or a denied request can cause."""

import time
from collections import OrderedDict
from collections.abc import Callable

from nekro_core.operator.identity.guess_limit import rate_limit_key
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.system.rate_window import RateWindow

MAX_ENTRIES = 120
"""Maximum number of entries that denied actions from one address may cause within `ENTRIES_S`.
Actions of viewers from one address have the same limit, and are counted separately. Viewers can
change only their own login, so they never need more."""
ENTRIES_S = 60.0
_MOST_ADDRESSES = 1024


class EntryLimit:
    """Counts the limited entries of each address. The entries are not counted by the name of the
    person, because people can change their names."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: OrderedDict[tuple[bool, str], RateWindow] = OrderedDict()

    def take(self, actor: Actor, *, denied: bool = False) -> float:
        """Count an entry. Returns the seconds to wait. If this is not 0, the entry was not counted
        and must not be stored."""
        if not denied and actor.role.allows(AccessRole.OPERATOR):
            return 0.0
        key, now = (denied, rate_limit_key(actor.address)), self._clock()
        window = self._windows.setdefault(key, RateWindow((MAX_ENTRIES, ENTRIES_S)))
        self._windows.move_to_end(key)
        while len(self._windows) > _MOST_ADDRESSES:
            self._windows.popitem(last=False)
        wait_s = max(0.0, window.wait_s(now))
        if not wait_s:
            window.take(now)
        return wait_s
