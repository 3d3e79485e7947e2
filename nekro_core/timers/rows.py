"""Holds the timers in memory and in the store, and keeps a queue of the timers in the order of
their due times."""

from collections.abc import Sequence
from heapq import heappop, heappush

import anyio

from nekro_core.store import SqlStatement, Store, StoreError, TimerRow
from nekro_core.store.database import WriteGuard
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.timers.due import ACTIVE, OVER


class TimerRows:
    """The timers' rows, in memory and in the store. A change is visible at once, and is stored when
    the call returns. If a change cannot be stored (`StoreError`), it is undone in memory.

    Other processes that share the database may change rows too. `read_again` brings their changes
    into memory. Rows of chats for which ``chats`` returns False are not held in memory.
    """

    def __init__(self, store: Store, chats: ChatScope = every_chat) -> None:
        self._store = store
        self._chats = chats
        self._rows: dict[str, TimerRow] = {}
        self._queue: list[tuple[float, str]] = []
        self.news = anyio.Event()
        """This event is set when an active row is added or changed. The scheduler makes a new event
        before each wait."""

    def __len__(self) -> int:
        return len(self._rows)

    async def load(self) -> None:
        """Load the stored timers into memory."""
        for row in await self._store.timers.all(self._chats):
            if row.state != OVER:
                self.put(row)

    async def read_again(self, timer_id: str) -> None:
        """Replace the row in memory by the row in the store. For an empty id, replace all rows."""
        if timer_id:
            found = await self._store.timers.get(timer_id)
            if found is None or found.state == OVER or not self._chats(found.chat_key):
                self._rows.pop(timer_id, None)
            elif found != self._rows.get(timer_id):
                self.put(found)
            return
        rows = await self._store.timers.all(self._chats)
        for gone in self._rows.keys() - {row.timer_id for row in rows}:
            del self._rows[gone]
        for row in rows:
            if row != self._rows.get(row.timer_id):
                self.put(row)

    def get(self, timer_id: str) -> TimerRow | None:
        """Return a timer that has not ended; None if there is none."""
        return self._rows.get(timer_id)

    def all(self) -> list[TimerRow]:
        """Return the timers that have not ended, in the order of their creation."""
        return [*self._rows.values()]

    def put(self, row: TimerRow) -> SqlStatement:
        """Put a row into memory, or remove it from memory if the timer has ended. Return the SQL
        statement that stores the row; this method does not run it."""
        if row.state == OVER:
            self._rows.pop(row.timer_id, None)
        else:
            self._rows[row.timer_id] = row
            if row.state == ACTIVE:
                heappush(self._queue, (row.due, row.timer_id))
                self.news.set()
        return self._store.timers.kept(row)

    async def keep(self, row: TimerRow, *, replaced: Sequence[TimerRow] = ()) -> None:
        """Put a row into memory and store it. In the same write, delete the ``replaced`` rows."""
        before = self._rows.get(row.timer_id)
        self.put(row)
        for each in replaced:
            self._rows.pop(each.timer_id, None)
        try:
            await self._store.timers.put(row, replaced=[each.timer_id for each in replaced])
        except StoreError:
            if before is not None:
                self.take_back(row, before)
            elif self._rows.get(row.timer_id) is row:
                del self._rows[row.timer_id]
            for each in replaced:
                self.put(each)
            raise

    async def forget(self, row: TimerRow) -> None:
        """Delete a row from memory and from the store."""
        self._rows.pop(row.timer_id, None)
        try:
            await self._store.timers.delete(row.timer_id)
        except StoreError:
            self.put(row)
            raise

    def take_back(self, row: TimerRow, before: TimerRow) -> None:
        """Undo a change that could not be stored. If the row has been changed again meanwhile, do
        nothing."""
        now = self._rows.get(row.timer_id)
        if now is row or (now is None and row.state == OVER):
            self.put(before)

    def claim(self, before: TimerRow, after: TimerRow) -> WriteGuard:
        """See `TimerRepository.claim`."""
        return self._store.timers.claim(before, after)

    def told(self, timer_id: str) -> list[SqlStatement]:
        """See `TimerRepository.told`."""
        return self._store.timers.told(timer_id)

    def next_due(self) -> float | None:
        """Return the next due time in the queue; None if the queue is empty. The queue may contain
        old due times of timers that were changed or deleted. So the returned time may be earlier
        than the real next due time, but never later."""
        return self._queue[0][0] if self._queue else None

    def pop_due(self, now: float, most: int) -> list[TimerRow]:
        """Take at most ``most`` due rows from the queue, the earliest first. A row is returned only
        once, unless it is put again."""
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
