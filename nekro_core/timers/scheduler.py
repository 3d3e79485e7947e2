"""Waits for due times, and reports due timers to their chats.

A due timer adds a system line to its chat, and the chat's agent answers the line. The line and the
timer's changed row are written in one transaction. The line has a unique key, which is made of the
timer's id and the due time. If another process has changed the row meanwhile, the transaction
stores nothing. So each due time is reported exactly once, even if the process dies at any moment,
or if several processes share the database. If the agent has not answered a line before a restart,
it answers the line after the restart, like the messages of people.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.store import GuardFailed, SqlStatement, Store, StoreUnavailable, TimerRow
from nekro_core.store.database import WriteGuard
from nekro_core.timers.due import RECURRING, after_firing, due_text, rescheduled
from nekro_core.timers.rows import TimerRows

_AT_ONCE = 64
"""Maximum number of timers that are reported at the same time. Their writes share a database
commit."""
_STORE_PAUSE_S = 1.0
"""Seconds before the next attempt, if the store cannot write. A full disk usually stays full for
minutes."""


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
        guards: Callable[[int], Sequence[WriteGuard]],
    ) -> object:
        """See `Inbox.note`. If it raises `StoreUnavailable` or `GuardFailed`, nothing was
        written."""


class TimerScheduler:
    """Reports all due timers. ``wall`` returns seconds since 1970. If that clock is set to another
    time, the scheduler notices this within ``look_s`` seconds."""

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
        """Compute the next due times of all timers again. This is needed at the start, and after
        the clock was set back."""
        now = self._wall()
        for row in self._rows.all():
            right = rescheduled(row, now)
            if right != row:
                await self._rows.keep(right)

    async def _look(self) -> float | None:
        """Report the timers that are due now. Return how many seconds to wait for the next due
        timer; None if there is none."""
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
        # The wait uses the monotonic clock, but due times use the wall clock, which may be changed
        # at any moment. So the wait is not longer than ``look_s``.
        return min(max(following - self._wall(), 0.0), self._look_s)

    async def tell(self, row: TimerRow, now: float) -> None:
        """Write the line that reports the timer of a due row, together with the changed row. If
        this raises `StoreUnavailable`, neither the line nor the row was written."""
        if self._rows.get(row.timer_id) is not row:
            return  # The row was changed or deleted after it was taken from the queue.
        told = after_firing(row, now)

        def claim(seq: int) -> tuple[WriteGuard]:
            nonlocal told
            told = replace(told, record_seq=seq)
            self._rows.put(told)
            return (self._store.timers.claim(row, told),)

        def beside(_: int) -> tuple[SqlStatement, ...]:
            return self._store.timers.sweep_statement(), *self._store.timers.told(row.timer_id)

        try:
            await self._inbox.note(
                row.chat_key,
                due_text(row, now),
                to_bot=True,
                unique_id=f"timer:{row.timer_id}:{row.due:.3f}",
                beside=beside,
                guards=claim,
            )
        except StoreUnavailable:
            self._rows.take_back(told, row)
            raise
        except GuardFailed:
            # Another process has changed, deleted or reported the timer.
            await self._rows.read_again(row.timer_id)
            return
        again = "again and again" if row.kind == RECURRING else "once"
        logger.info("{}: timer {} was due ({})", row.chat_key, row.timer_id, again)
