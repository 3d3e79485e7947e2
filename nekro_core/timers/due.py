"""Computes the next state of a due timer and its text for the agent. The functions have no side
effects: they take a row and the time, and return a row or a text."""

from dataclasses import replace
from datetime import datetime
from itertools import islice

from nekro_core.store import TimerRow
from nekro_core.timers.schedule import Schedule, zone_of
from nekro_core.timers.workdays import WorkdayMode

ONCE, TEMPORARY, RECURRING = "once", "temporary", "recurring"
ACTIVE, PAUSED, OVER = "active", "paused", "over"

_LATE_S = 60.0
"""The text mentions a delay only if it is at least this many seconds. A smaller delay only means
that the machine was busy."""
_DAY_S = 86_400.0
_COUNTED = 100


def schedule_of(row: TimerRow) -> Schedule:
    """Return the schedule of a recurring timer."""
    return Schedule(row.cron, row.timezone, WorkdayMode(row.workdays))


def after_firing(row: TimerRow, now: float) -> TimerRow:
    """Return the row that replaces a row whose due time was reported. The new row has ended or has
    the next due time. Times that passed while the bot was not running are skipped, since `due_text`
    reports them together."""
    if row.kind != RECURRING:
        return replace(row, state=OVER, told_due=row.due, due=0.0)
    following = schedule_of(row).next_after(max(now, row.due))
    if following is None:
        return replace(row, state=OVER, told_due=row.due, due=0.0)
    return replace(row, told_due=row.due, due=following)


def rescheduled(row: TimerRow, now: float) -> TimerRow:
    """Return the row with a newly computed next due time.

    Time zone rules, holidays and the clock may have changed since the last computation. If the
    clock was set back by up to a day, a time that was already reported does not become due again.
    If the clock was set back further, it was wrong before, so the reported time is ignored.
    """
    if row.kind != RECURRING or row.state != ACTIVE or row.due <= now:
        return row
    told = row.told_due if row.told_due <= now + _DAY_S else 0.0
    following = schedule_of(row).next_after(max(now, told))
    if following is None:
        return replace(row, state=OVER, due=0.0)
    return replace(row, due=following)


def due_text(row: TimerRow, now: float) -> str:
    """Return the line for the agent. If the timer is late, the line says so."""
    if row.kind == RECURRING:
        name = f' "{row.title}"' if row.title else ""
        said = [f"The recurring timer{name} ({row.timer_id}) is due: {row.text}"]
    else:
        said = [f"A timer that was set in this chat is due: {row.text}"]
    if row.due and now - row.due > _LATE_S:
        due = datetime.fromtimestamp(row.due, zone_of(row.timezone))
        said.append(f"It was due at {due:%Y-%m-%d %H:%M}, when the bot was not there.")
        if passed := _passed(row, now):
            more = f"{passed} more of its times have" if passed > 1 else "One more of its times has"
            said.append(f"{more} passed since.")
    return "\n".join(said)


def _passed(row: TimerRow, now: float) -> int:
    if row.kind != RECURRING:
        return 0
    times = islice(schedule_of(row).times_after(row.due), _COUNTED)
    return sum(time <= now for time in times)
