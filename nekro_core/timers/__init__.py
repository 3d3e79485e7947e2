"""Timers that wake a chat's agent once or repeatedly. They are stored, so they survive a
restart."""

from nekro_core.timers.schedule import BadSchedule, Schedule, parsed_cron, parsed_zone, zone_of
from nekro_core.timers.service import TimerRefused, TimerService
from nekro_core.timers.settings import TimerSettings
from nekro_core.timers.workdays import WorkdayMode

__all__ = [
    "BadSchedule",
    "Schedule",
    "TimerRefused",
    "TimerService",
    "TimerSettings",
    "WorkdayMode",
    "parsed_cron",
    "parsed_zone",
    "zone_of",
]
