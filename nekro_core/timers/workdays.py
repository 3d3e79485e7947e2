"""Decides on which days a recurring timer may be due."""

import importlib
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any

from loguru import logger


class WorkdayMode(StrEnum):
    """The days on which a timer may be due: every day; Monday to Friday; Saturday and Sunday;
    workdays in mainland China; days off there. China's public holidays are days off. In exchange,
    people there work on some weekend days, which count as workdays."""

    NONE = "none"
    MON_FRI = "mon_fri"
    WEEKEND = "weekend"
    CN_WORKDAY = "cn_workday"
    CN_RESTDAY = "cn_restday"


def includes_day(mode: WorkdayMode, day: date) -> bool:
    """Return True if the mode includes this day.

    China's holidays are announced each autumn for the next year. In a year whose holidays are not
    in the installed ``chinesecalendar``, Monday to Friday count as workdays.
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
    # The package is imported when it is first used. It has tables for twenty years, which most bots
    # never need.
    calendar: Any = importlib.import_module("chinese_calendar")
    try:
        return bool(calendar.is_workday(day))
    except NotImplementedError:
        _tell_unknown(day.year)
        return day.weekday() < 5


@lru_cache
def _tell_unknown(year: int) -> None:
    logger.warning(
        "China's holidays of {} are not known: for timers, Monday to Friday count as workdays "
        "(pip install --upgrade chinesecalendar)",
        year,
    )
