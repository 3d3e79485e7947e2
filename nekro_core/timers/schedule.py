"""Computes when a recurring timer is due, from its schedule: a cron expression, a time zone and a
kind of days.

Expressions have the five fields of cron(5), or are one of ``@hourly``, ``@daily``, ``@midnight``,
``@weekly``, ``@monthly``, ``@yearly``, ``@annually``. Changes to and from daylight saving time are
handled as in Debian's cron (`cronsim`). If a time of day is skipped, the timer is due right after
the gap. If a time of day occurs twice, the timer is due once.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, tzinfo
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from nekro_core.system.errors import NekroError
from nekro_core.timers.workdays import WorkdayMode, includes_day

_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = "minute, hour, day of month, month, day of week"
_LONGEST = 200
_HORIZON_S = 10 * 366 * 86_400.0
"""Ten years, in seconds. A schedule without a due time within ten years is refused, because it has
no due time at all. Even 29 February comes within eight years."""


class BadSchedule(NekroError, ValueError):
    """The cron expression, the zone or the workday mode is invalid. The message says what was
    expected."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Says when a timer is due. `parse` makes a checked schedule. An empty zone means the machine's
    time zone."""

    cron: str
    timezone: str = ""
    workdays: WorkdayMode = WorkdayMode.NONE

    @classmethod
    def parse(cls, cron: str, timezone: str = "", workdays: str = "none") -> "Schedule":
        """Check and build a schedule. Raises `BadSchedule`, also for a valid schedule that has no
        due time within ten years."""
        schedule = cls(parsed_cron(cron), parsed_zone(timezone), _parsed_mode(workdays))
        if schedule.next_after(datetime.now(UTC).timestamp()) is None:
            raise BadSchedule(
                f"cron expression {cron!r} with {workdays!r}: no such time ever comes"
            )
        return schedule

    def next_after(self, moment: float) -> float | None:
        """Return the first due time after ``moment``; None if there is none within ten years. Times
        are seconds since 1970."""
        return next(self.times_after(moment), None)

    def times_after(self, moment: float) -> Iterator[float]:
        """Yield all due times within ten years after ``moment``, in order."""
        zone = zone_of(self.timezone)
        try:
            times = CronSim(self.cron, datetime.fromtimestamp(moment, zone))
            while (found := next(times, None)) is not None:
                due = found.timestamp()
                if due > moment + _HORIZON_S:
                    return
                if not includes_day(self.workdays, found.date()):
                    # Skip to the next day. Without this, a cron expression for every minute would
                    # take thousands of steps.
                    evening = datetime.combine(found.date(), time(23, 59, 59), zone)
                    times = CronSim(self.cron, evening)
                elif due > moment:
                    # If the search starts in an hour that occurs twice, `CronSim` may find a time
                    # in the first of the two hours, which has passed. Only later times are yielded.
                    yield due
        except (OverflowError, OSError, ValueError):
            return  # The clock shows a time that datetime cannot represent.


def parsed_cron(expression: str) -> str:
    """Check an expression, and replace a name such as ``@daily`` with five fields. Raises
    `BadSchedule`."""
    text = " ".join(str(expression).split())
    text = _NAMED.get(text.lower(), text)
    if len(text) > _LONGEST or len(text.split(" ")) != 5:
        raise BadSchedule(
            f"cron expression {_quoted(expression)}: expected five fields ({_FIELDS}), "
            "for example '30 7 * * 1-5'"
        )
    try:
        CronSim(text, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise BadSchedule(
            f"cron expression {_quoted(expression)}: {error}; the fields are {_FIELDS}, "
            "for example '30 7 * * 1-5'"
        ) from None
    return text


def parsed_zone(name: str) -> str:
    """Check the name of a time zone. An empty name means the machine's zone. Raises
    `BadSchedule`."""
    name = (name or "").strip()
    zone_of(name)
    return name


@lru_cache(256)
def zone_of(name: str) -> tzinfo:
    """Return the time zone with an IANA name. For an empty name, return the machine's zone. Raises
    `BadSchedule`."""
    if not name:
        return _machine_zone()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadSchedule(
            f"time zone {_quoted(name)}: expected a name such as Asia/Shanghai or Europe/Berlin"
        ) from None


def _machine_zone() -> tzinfo:
    try:
        if name := os.environ.get("TZ", "").lstrip(":"):
            return ZoneInfo(name)
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.now(UTC).astimezone().tzinfo or UTC


def _parsed_mode(mode: str) -> WorkdayMode:
    try:
        return WorkdayMode(mode or "none")
    except ValueError:
        known = ", ".join(WorkdayMode)
        raise BadSchedule(f"workday mode {_quoted(mode)}: expected one of {known}") from None


def _quoted(text: object) -> str:
    return repr(str(text)[:_LONGEST])
