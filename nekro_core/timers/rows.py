"""The timers in memory and in the store, in the order in which they are due."""

from heapq import heappop, heappush

import anyio

from nekro_core.store import SqlStatement, Store, StoreError, TimerRow
from nekro_core.timers.due import ACTIVE, OVER


class TimerRows:
    """What the store has, held in memory as well. A change is seen at once and kept when it was
    awaited; one that cannot be kept (`StoreError`) did not happen."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, TimerRow] = {}
        self._queue: list[tuple[float, str]] = []
        self.news = anyio.Event()
        """Set when there is another time to wait for; whoever waits makes a new one."""

    def __len__(self) -> int:
        return len(self._rows)

    async def load(self) -> None:
        """Find what an earlier process left."""
        for row in await self._store.timers.all():
            if row.state != OVER:
                self.put(row)

    def get(self, timer_id: str) -> TimerRow | None:
        """One of those that are not over."""
        return self._rows.get(timer_id)

    def all(self) -> list[TimerRow]:
        """Those that are not over, in the order in which they were made."""
        return [*self._rows.values()]

    def put(self, row: TimerRow) -> SqlStatement:
        """Hold a row in memory alone; the statement that keeps it."""
        if row.state == OVER:
            self._rows.pop(row.timer_id, None)
        else:
            self._rows[row.timer_id] = row
            if row.state == ACTIVE:
                heappush(self._queue, (row.due, row.timer_id))
                self.news.set()
        return self._store.timers.kept(row)

    async def keep(self, row: TimerRow) -> None:
        """Hold a row and write it down."""
        before = self._rows.get(row.timer_id)
        self.put(row)
        try:
            await self._store.timers.put(row)
        except StoreError:
            if before is not None:
                self.take_back(row, before)
            elif self._rows.get(row.timer_id) is row:
                del self._rows[row.timer_id]
            raise

    async def forget(self, row: TimerRow) -> None:
        """Take a row away."""
        self._rows.pop(row.timer_id, None)
        try:
            await self._store.timers.delete(row.timer_id)
        except StoreError:
            self.put(row)
            raise

    def take_back(self, row: TimerRow, before: TimerRow) -> None:
        """A row could not be written: the one before it holds, unless more happened since."""
        now = self._rows.get(row.timer_id)
        if now is row or (now is None and row.state == OVER):
            self.put(before)

    def next_due(self) -> float | None:
        """The time of what comes next, which may have been changed: then it is earlier."""
        return self._queue[0][0] if self._queue else None

    def pop_due(self, now: float, most: int) -> list[TimerRow]:
        """Rows whose time has come, the earliest. Each is given once, until it is put again."""
        found: dict[str, TimerRow] = {}
        while self._queue and len(found) < most:
            due, timer_id = self._queue[0]
            row = self._rows.get(timer_id)
            if row is not None and row.state == ACTIVE and row.due == due:
                if due > now:
                    break
                found[timer_id] = row
            heappop(self._queue)
        return [*found.values()]
