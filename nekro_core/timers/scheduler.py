"""Waits for timers, and reports those that are due.

A due timer becomes a system line in its chat, which the chat's agent answers. The line and the
timer's changed row are written in one transaction, and the line has a unique key made of timer and
due time. So each due time is reported exactly once, before or after a restart, whenever the process
dies. If the agent has not answered a line before the restart, it answers after it, as it does with
people's messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.store import SqlStatement, Store, StoreUnavailable, TimerRow
from nekro_core.timers.due import RECURRING, after_firing, due_text, rescheduled
from nekro_core.timers.rows import TimerRows

_AT_ONCE = 64
"""Timers that are reported at the same time: they share a commit."""
_STORE_PAUSE_S = 1.0
"""Pause before the next try when the store cannot write: a disk stays full for minutes."""


class TimerNoteWriter(Protocol):
    """Adds a line to a chat's history (`nekro_core.delivery.Inbox`)."""

    async def note(
        self,
        chat_key: ChatKey,
        text: str,
        *,
        to_bot: bool,
        unique_id: str,
        beside: Callable[[int], Sequence[SqlStatement]],
    ) -> object:
        """See `Inbox.note`. Raises `StoreUnavailable`: nothing was written."""


class TimerScheduler:
    """Reports all timers. ``wall`` returns seconds since 1970. A change of that clock is noticed
    within ``look_s`` seconds."""

    def __init__(
        self,
        rows: TimerRows,
        store: Store,
        inbox: TimerNoteWriter,
        *,
        look_s: float,
        wall: Callable[[], float],
    ) -> None:
        self._rows = rows
        self._store = store
        self._inbox = inbox
        self._look_s = look_s
        self._wall = wall
        self._seen = wall()

    async def live(self) -> None:
        """Report due timers until cancelled."""
        while True:
            self._rows.news = anyio.Event()
            try:
                wait = await self._look()
            except StoreUnavailable as error:
                logger.error("timers wait until the store can write: {}", error)
                await anyio.sleep(_STORE_PAUSE_S)
                continue
            with anyio.move_on_after(wait):
                await self._rows.news.wait()

    async def mend(self) -> None:
        """Compute the next times anew, at the start and after the clock was put back."""
        now = self._wall()
        for row in self._rows.all():
            right = rescheduled(row, now)
            if right != row:
                await self._rows.keep(right)

    async def _look(self) -> float | None:
        """Report the timers that are due now. Return how long to wait; None if none is waiting."""
        now = self._wall()
        if now < self._seen:
            await self.mend()
        self._seen = now
        failures: list[StoreUnavailable] = []

        async def tell(row: TimerRow) -> None:
            try:
                await self.tell(row, now)
            except StoreUnavailable as error:
                failures.append(error)

        due = self._rows.pop_due(now, _AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for row in due:
                tasks.start_soon(tell, row)
        if failures:
            raise failures[0]
        if due:
            return 0.0
        following = self._rows.next_due()
        if following is None:
            return None
        # Waits use the monotonic clock, due times the wall clock, which may be set at any moment.
        return min(max(following - self._wall(), 0.0), self._look_s)

    async def tell(self, row: TimerRow, now: float) -> None:
        """Write the line of a due row together with the changed row. Raises `StoreUnavailable`;
        then neither was written."""
        if self._rows.get(row.timer_id) is not row:
            return  # changed or forgotten a moment ago
        told = after_firing(row, now)

        def beside(seq: int) -> tuple[SqlStatement, ...]:
            nonlocal told
            told = replace(told, record_seq=seq)
            return self._rows.put(told), self._store.timers.sweep_statement()

        try:
            await self._inbox.note(
                row.chat_key,
                due_text(row, now),
                to_bot=True,
                unique_id=f"timer:{row.timer_id}:{row.due:.3f}",
                beside=beside,
            )
        except StoreUnavailable:
            self._rows.take_back(told, row)
            raise
        again = "again and again" if row.kind == RECURRING else "once"
        logger.info("{}: timer {} was due ({})", row.chat_key, row.timer_id, again)
