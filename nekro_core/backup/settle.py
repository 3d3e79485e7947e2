"""Ends what was unfinished in the database of a backup, so that a restored bot does nothing a
second time.

Timers: if a one-time timer was due between the backup and the restore, it has probably fired and
its message was sent. So the timer is ended and does not fire late. A recurring timer goes on with
its next time after the restore. The other rows are described at
`nekro_core.store.restored_rows.RestoredRows.settle`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from nekro_core.store import Store
from nekro_core.store.restored_rows import SettledRows
from nekro_core.timers.due import ACTIVE, after_firing


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What was ended in the database. ``timers`` are the ids of timers whose due times were
    skipped."""

    rows: SettledRows
    timers: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        """Return sentences about what was ended, for the operator; nothing if nothing was."""
        said = []
        if self.rows.deliveries:
            said.append(
                f"{self.rows.deliveries} messages were waiting when the backup was made, and were "
                "probably sent since: they are in the list of undelivered messages as unknown"
            )
        if self.rows.turns:
            said.append(f"{self.rows.turns} answers were being made: they are not taken up again")
        if self.rows.waiting:
            said.append(f"{self.rows.waiting} questions and tasks that waited were removed")
        if self.timers:
            said.append(
                f"{len(self.timers)} timers were due between the backup and now, and are not fired "
                f"late: {', '.join(self.timers[:20])}"
            )
        return tuple(said)


async def settle(store: Store, made: float, wall: Callable[[], float]) -> Settled:
    """Settle the unfinished rows of a restored database. ``made`` is when the backup was made, in
    seconds since 1970. Raises `StoreError`."""
    now = wall()
    when = datetime.fromtimestamp(made, UTC)
    reason = f"restored from a backup of {when:%Y-%m-%d %H:%M} UTC; it may have been sent since"
    rows = await store.restored.settle(reason, now)
    passed = []
    for row in await store.timers.all():
        if row.state == ACTIVE and 0 < row.due <= now:
            await store.timers.put(after_firing(row, now))
            passed.append(row.timer_id)
    return Settled(rows=rows, timers=tuple(passed))
