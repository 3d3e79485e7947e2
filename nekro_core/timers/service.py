"""Sets, lists, changes and deletes timers. Other rooms use this interface."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

import anyio

from nekro_core.chat import ChatKey
from nekro_core.store import ChangeTopic, GuardFailed, Store, StoreError, TimerRow
from nekro_core.store.database import WriteGuard
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.errors import NekroError
from nekro_core.timers.due import (
    ACTIVE,
    ONCE,
    PAUSED,
    RECURRING,
    TEMPORARY,
    due_text,
    schedule_of,
)
from nekro_core.timers.rows import TimerRows
from nekro_core.timers.schedule import Schedule
from nekro_core.timers.scheduler import TimerNoteWriter, TimerScheduler
from nekro_core.timers.settings import TimerSettings

_FUTURE_S = 100 * 366 * 86_400.0
"""A due time more than this many seconds in the future is refused. `datetime` cannot represent much
later times, so listing the timers of a chat would fail."""
_PAST_S = 60.0
"""A due time more than this many seconds in the past is refused as a mistake."""
_TITLE_CHARS = 200


def _readable(seconds: float) -> str:
    """Write a time in the time zone of this machine. If the number is not a valid time, write the
    number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:g}"


class TimerRefused(NekroError, ValueError):
    """The timer cannot be set, or does not exist. The message says why."""


class TimerService:
    """Sets and changes timers. `open` makes this object. No due timer is reported before `start` is
    called.

    A change has effect at once, and is stored when the call returns. If it cannot be stored, the
    change is undone and `StoreError` is raised. `clear` and `reword` store one row after another.
    So if one of them raises an error, a part of its changes may remain.
    """

    def __init__(
        self,
        rows: TimerRows,
        inbox: TimerNoteWriter,
        settings: TimerSettings,
        *,
        timezone: str,
        wall: Callable[[], float],
    ) -> None:
        self._rows = rows
        self._inbox = inbox
        self._settings = settings
        self._wall = wall
        self._begun = anyio.Event()
        self.timezone = timezone
        """The time zone of a recurring timer whose schedule names no zone. If it is empty, the
        machine's zone is used."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        inbox: TimerNoteWriter,
        settings: TimerSettings | None = None,
        *,
        timezone: str = "",
        wall: Callable[[], float],
        chats: ChatScope = every_chat,
    ) -> AsyncIterator[Self]:
        """Load the stored timers. ``wall`` returns seconds since 1970. ``chats`` returns whether
        this process reports the timers of a chat. When ``chats`` begins to return something else
        for a chat, call `read_again`."""
        settings = settings or TimerSettings()
        rows = TimerRows(store, chats)
        store.changes.listen(ChangeTopic.TIMERS, rows.read_again)
        # An erasure also changes the texts of timers.
        store.changes.listen(ChangeTopic.ERASED, rows.read_again)
        await rows.load()
        watch = TimerScheduler(rows, store, inbox, look_s=settings.look_s, wall=wall)
        await watch.mend()
        timers = cls(rows, inbox, settings, timezone=timezone, wall=wall)

        async def live() -> None:
            await timers._begun.wait()
            await watch.live()

        async with background_tasks() as tasks:
            tasks.start_soon(live, name="timers")
            yield timers

    async def read_again(self) -> None:
        """Read all timers from the store again. Raises `StoreUnavailable`."""
        await self._rows.read_again("")

    def now(self) -> float:
        """Return seconds since 1970 by the clock that timers use."""
        return self._wall()

    def start(self) -> None:
        """Start to report due timers to their chats."""
        self._begun.set()

    # ---- one-time timers

    async def set_once(
        self, chat_key: ChatKey, due: float, text: str, *, temporary: bool = False
    ) -> TimerRow:
        """Set a timer that wakes a chat's agent once, at ``due`` (seconds since 1970; 0 is now). A
        chat has at most one temporary timer: a new temporary timer replaces the earlier one. Raises
        `TimerRefused`."""
        now = self._wall()
        due = due or now
        if not now - _PAST_S <= due < float("inf"):
            raise TimerRefused(f"the time {_readable(due)} is over: it is {_readable(now)}")
        if due > now + _FUTURE_S:
            raise TimerRefused(f"the time {due:g} is more than a hundred years away")
        old = [each for each in self.of_chat(chat_key) if temporary and each.kind == TEMPORARY]
        kind = TEMPORARY if temporary else ONCE
        row = self._new(chat_key, kind, text, due=due, freed=len(old))
        await self._rows.keep(row, replaced=old)
        return row

    def all(self) -> list[TimerRow]:
        """Return the timers of all chats that have not ended, in the order of their creation."""
        return self._rows.all()

    def of_chat(self, chat_key: ChatKey) -> list[TimerRow]:
        """Return a chat's one-time timers, by their due times."""
        found = [
            row for row in self._rows.all() if row.kind != RECURRING and row.chat_key == chat_key
        ]
        return sorted(found, key=lambda row: row.due)

    def chat_of(self, timer_id: str) -> ChatKey | None:
        """Return the chat of a timer of any kind; None if there is no timer with this id."""
        row = self._rows.get(timer_id)
        return row.chat_key if row is not None else None

    async def clear(self, chat_key: ChatKey, *, temporary: bool | None = None) -> int:
        """Delete one-time timers of a chat. ``temporary`` says which: all of them (None), the
        temporary timer (True), or all but the temporary timer (False). Returns how many were
        deleted."""
        found = [
            row
            for row in self.of_chat(chat_key)
            if temporary is None or temporary == (row.kind == TEMPORARY)
        ]
        for row in found:
            await self._rows.forget(row)
        return len(found)

    async def forget(self, chat_key: ChatKey, timer_id: str) -> bool:
        """Delete one timer of a chat, of any kind. Returns False if the chat has no timer with this
        id."""
        row = self._rows.get(timer_id)
        if row is None or row.chat_key != chat_key:
            return False
        await self._rows.forget(row)
        return True

    async def reword(self, made: Callable[[str], str]) -> int:
        """Replace the text and title of every timer by the result of ``made``. Return how many
        timers changed."""
        changed = 0
        for row in self._rows.all():
            after = replace(row, text=made(row.text), title=made(row.title))
            if after != row:
                await self._rows.keep(after)
                changed += 1
        return changed

    # ---- recurring timers

    async def create(
        self, chat_key: ChatKey, schedule: Schedule, text: str, *, title: str = ""
    ) -> TimerRow:
        """Set a timer that wakes a chat's agent at each time of the schedule. Raises
        `TimerRefused`."""
        row = self._new(chat_key, RECURRING, text, title=title)
        row = self._scheduled(row, schedule)
        await self._rows.keep(row)
        return row

    async def update(
        self,
        timer_id: str,
        *,
        schedule: Schedule | None = None,
        text: str | None = None,
        title: str | None = None,
    ) -> TimerRow:
        """Change a recurring timer. A part that is None does not change. Raises `TimerRefused`."""
        row = self._recurring(timer_id)
        if text is not None:
            row = replace(row, text=self._checked(text))
        if title is not None:
            row = replace(row, title=title[:_TITLE_CHARS])
        if schedule is not None and schedule != schedule_of(row):
            row = self._scheduled(row, schedule)
        await self._rows.keep(row)
        return row

    async def pause(self, timer_id: str) -> TimerRow:
        """Pause a recurring timer until `resume`. Raises `TimerRefused`."""
        row = replace(self._recurring(timer_id), state=PAUSED, due=0.0)
        await self._rows.keep(row)
        return row

    async def resume(self, timer_id: str) -> TimerRow:
        """Resume a paused recurring timer. Raises `TimerRefused`."""
        row = self._recurring(timer_id)
        if row.state == PAUSED:
            row = self._scheduled(replace(row, state=ACTIVE), schedule_of(row))
            await self._rows.keep(row)
        return row

    async def run_now(self, timer_id: str) -> TimerRow:
        """Report a recurring timer to its chat now. The due times of the timer do not change.
        Raises `TimerRefused`."""
        row = self._recurring(timer_id)
        reported = row

        def claim(seq: int) -> tuple[WriteGuard]:
            nonlocal reported
            reported = replace(row, record_seq=seq)
            self._rows.put(reported)
            return (self._rows.claim(row, reported),)

        try:
            await self._inbox.note(
                row.chat_key,
                due_text(replace(row, due=0.0), self._wall()),
                to_bot=True,
                unique_id=f"timer:{timer_id}:now:{uuid.uuid4().hex}",
                beside=lambda _: self._rows.told(timer_id),
                guards=claim,
            )
        except GuardFailed:
            await self._rows.read_again(timer_id)
            raise TimerRefused(
                f"the timer {timer_id!r} has changed at this moment: look at it, then try again"
            ) from None
        except StoreError:
            self._rows.take_back(reported, row)
            raise
        return self._rows.get(timer_id) or row

    async def delete(self, timer_id: str) -> bool:
        """Delete a recurring timer. Returns False if there is none with this id."""
        row = self.get(timer_id)
        if row is not None:
            await self._rows.forget(row)
        return row is not None

    def get(self, timer_id: str) -> TimerRow | None:
        """Return a recurring timer; None if there is none with this id."""
        row = self._rows.get(timer_id)
        return row if row is not None and row.kind == RECURRING else None

    def recurring(self, chat_key: ChatKey | None = None) -> list[TimerRow]:
        """Return the recurring timers of a chat, or of all chats (None), in the order of
        creation."""
        return [
            row
            for row in self._rows.all()
            if row.kind == RECURRING and chat_key in (None, row.chat_key)
        ]

    def _new(
        self, chat_key: ChatKey, kind: str, text: str, *, freed: int = 0, **more: Any
    ) -> TimerRow:
        text = self._checked(text)
        most = self._settings.per_chat
        if sum(row.chat_key == chat_key for row in self._rows.all()) - freed >= most:
            raise TimerRefused(f"{chat_key} has {most} timers: delete one before you set another")
        if len(self._rows) - freed >= self._settings.in_all:
            raise TimerRefused(f"there are {len(self._rows)} timers: no more can be set")
        return TimerRow(
            timer_id=uuid.uuid4().hex[:12],
            chat_key=chat_key,
            kind=kind,
            state=ACTIVE,
            text=text,
            title=str(more.pop("title", ""))[:_TITLE_CHARS],
            created=self._wall(),
            **more,
        )

    def _checked(self, text: str) -> str:
        text, most = text.strip(), self._settings.text_chars
        if not text or len(text) > most:
            raise TimerRefused(f"a text of {len(text)} characters: expected 1 to {most}")
        return text

    def _scheduled(self, row: TimerRow, schedule: Schedule) -> TimerRow:
        due = schedule.next_after(self._wall())
        if due is None:
            raise TimerRefused(f"{schedule.cron!r}: no such time ever comes")
        return replace(
            row,
            cron=schedule.cron,
            timezone=schedule.timezone,
            workdays=schedule.workdays.value,
            due=due if row.state == ACTIVE else 0.0,
        )

    def _recurring(self, timer_id: str) -> TimerRow:
        row = self.get(timer_id)
        if row is None:
            raise TimerRefused(f"there is no recurring timer {timer_id!r}")
        return row
