"""The days on which a recurring timer is due."""

import importlib
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any

from loguru import logger


class WorkdayMode(StrEnum):
    """Every day; Monday to Friday; Saturday and Sunday; days on which people work in mainland
    China, or rest there, public holidays and the weekends worked in exchange included."""

    NONE = "none"
    MON_FRI = "mon_fri"
    WEEKEND = "weekend"
    CN_WORKDAY = "cn_workday"
    CN_RESTDAY = "cn_restday"


def includes_day(mode: WorkdayMode, day: date) -> bool:
    """Whether the mode has this day.

    China's holidays are decreed each autumn for the year to come. Of a year that the installed
    ``chinesecalendar`` does not know yet, Monday to Friday are taken for workdays.
    """
    match mode:
        case WorkdayMode.NONE:
            return True
        case WorkdayMode.MON_FRI:
            return day.weekday() < 5
        case WorkdayMode.WEEKEND:
            return day.weekday() >= 5
        case WorkdayMode.CN_WORKDAY:
            return _is_worked_in_china(day)
        case WorkdayMode.CN_RESTDAY:
            return not _is_worked_in_china(day)


def _is_worked_in_china(day: date) -> bool:
    # Loaded when the first timer asks: tables of twenty years that most bots never need.
    calendar: Any = importlib.import_module("chinese_calendar")
    try:
        return bool(calendar.is_workday(day))
    except NotImplementedError:
        _tell_unknown(day.year)
        return day.weekday() < 5


@lru_cache
def _tell_unknown(year: int) -> None:
    logger.warning(
        "China's holidays of {} are not known: timers take Monday to Friday for workdays "
        "(pip install --upgrade chinesecalendar)",
        year,
    )
