"""Reads the times that a question names ("last week", "三月", "先月"), and the dates of filters."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import cache
from importlib.resources import files

from nekro_core.system.errors import NekroError

Span = tuple[float, float]
"""A time span: from the first number up to but not including the second, in seconds since 1970."""

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + ")"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_YEARS_BACK = 10
"""A month without a year means this month in each of this many years: the present year and the
years before it."""

_DATE = re.compile(r"\b((?:19|20)\d\d)[-/.](\d{1,2})[-/.](\d{1,2})\b")
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_ORDINAL = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_BEFORE_MONTH = "in|of|last|since|during|early|late|mid|this|by|until|and"
_ENGLISH_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_ORDINAL}(?: of)? (?P<month>{_MONTH})\b\.?(?:,? {_YEAR})?",
        rf"\b(?P<month>{_MONTH})\b\.? {_ORDINAL}\b(?:,? {_YEAR})?",
        rf"\b(?P<month>{_MONTH})\b\.?,? (?P<day>){_YEAR}\b",
        rf"\b(?:{_BEFORE_MONTH})[ -](?P<month>{_MONTH})\b(?P<day>)(?P<year>)",
    )
)
_ENGLISH_YEAR = re.compile(r"\b(?:in|of|during|since|year) ((?:19|20)\d\d)\b", re.IGNORECASE)
_WEEKDAY = re.compile(rf"\b(?:last|this|on) (?P<day>{'|'.join(_WEEKDAYS)})\b", re.IGNORECASE)


class BadDate(NekroError, ValueError):
    """A text is not a date. The message of the error says what was expected."""


def parse_date(text: str, zone: tzinfo | None, *, end: bool) -> float:
    """Read the date of a filter.

    Args:
        text: A date such as ``2025-03-08``, or with a time as ``2025-03-08T21:14``.
        zone: The time zone of the date, unless the text contains one; None for the machine's.
        end: Whether the date ends a time span. If so, a date without a time means the end of that
            day.

    Returns:
        Seconds since 1970.

    Raises:
        BadDate: The text is not a date.
    """
    plain = text.strip()
    try:
        moment = datetime.fromisoformat(plain)
        if end and len(plain) <= len("2025-03-08"):
            moment += timedelta(days=1)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadDate(
            f"{text[:40]!r} is no date: write 2025-03-08, or 2025-03-08T21:14 with a time"
        ) from None


def spans_in(text: str, now: float, zone: tzinfo | None = None) -> list[Span]:
    """Find the times that a text names.

    Args:
        text: A question in English, Chinese or Japanese.
        now: The present time in seconds since 1970; "last week" is relative to it.
        zone: The time zone; None for the machine's.

    Returns:
        The time spans. A month without a year gives ten spans: this month in each of ten years.
    """
    try:
        today = datetime.fromtimestamp(now, zone).date()
        return [
            (_midnight(begin, zone), _midnight(end, zone))
            for begin, end in _dates_in(text, today)
            if end.year > 1970
        ]
    except (ValueError, OverflowError, OSError):
        return []  # The year, or the machine's clock, is outside of the range of dates.


def without_relative_times(text: str) -> str:
    """Remove words for times that are relative to the present, such as "last week". In an old
    message the same words mean another time, so they must not be searched."""
    words = _time_words()
    relative = (pattern for pattern, _, _ in words.relative)
    for pattern in (_WEEKDAY, words.weekday, words.ago, *relative):
        text = pattern.sub(" ", text)
    return text


def _midnight(day: date, zone: tzinfo | None) -> float:
    return datetime.combine(day, time.min, zone).timestamp()


def _dates_in(text: str, today: date) -> Iterator[tuple[date, date]]:
    for year, month, day in _DATE.findall(text):
        yield from _calendar(today, int(year), int(month), int(day))
    words = _time_words()
    for year, month, day in words.date.findall(text):
        number = int(month) if month.isdigit() else words.numerals[month]
        yield from _calendar(today, int(year or 0), number, int(day or 0))
    for year in words.year.findall(text) + _ENGLISH_YEAR.findall(text):
        yield date(int(year), 1, 1), date(int(year) + 1, 1, 1)
    for pattern in _ENGLISH_DATES:
        for match in pattern.finditer(text):
            month = _MONTHS[match["month"].lower()]
            yield from _calendar(today, int(match["year"] or 0), month, int(match["day"] or 0))
    for number, unit, _ in words.ago.findall(text):
        count = int(number) if number.isdigit() else words.numerals[number.lower()]
        yield _unit(today, words.units[unit.lower()], -count, vague=True)
    for pattern, unit, by in words.relative:
        if pattern.search(text):
            yield _unit(today, unit, by)
    for match in _WEEKDAY.finditer(text):
        # Take the last day before today with this weekday. If today has this weekday, take the day
        # a week ago.
        number = _WEEKDAYS.index(match["day"].lower())
        day = today - timedelta(days=(today.weekday() - number - 1) % 7 + 1)
        yield day, day + timedelta(days=1)
    for match in words.weekday.finditer(text):
        number = words.days[match["day"]] - 7 * (match["week"][0] in words.last_week)
        day = today + timedelta(days=number - today.weekday())
        yield day, day + timedelta(days=1)


def _calendar(today: date, year: int, month: int, day: int) -> Iterator[tuple[date, date]]:
    """Yield the possible spans of a date. ``year`` or ``day`` is 0 if it is unknown."""
    if not 1 <= month <= 12 or not 0 <= day <= 31:
        return
    for each in [year] if year else range(today.year, today.year - _YEARS_BACK, -1):
        begin = date(each, month, 1)
        after = date(each + month // 12, month % 12 + 1, 1)
        if not day:
            yield begin, after
        elif begin + timedelta(days=day) <= after:
            yield begin + timedelta(days=day - 1), begin + timedelta(days=day)


def _unit(today: date, unit: str, by: int, *, vague: bool = False) -> tuple[date, date]:
    """Return the day, week, month or year that is ``by`` units from the present one. A ``vague``
    time ("two weeks ago") gives a span of one unit around the exact day."""
    if unit == "day":
        begin = today + timedelta(days=by)
        return begin, begin + timedelta(days=1)
    if vague:
        days = {"week": 7, "month": 30, "year": 365}[unit]
        middle = today + timedelta(days=by * days)
        return middle - timedelta(days=days // 2), middle + timedelta(days=days // 2 + 1)
    if unit == "week":
        begin = today + timedelta(days=7 * by - today.weekday())
        return begin, begin + timedelta(days=7)
    if unit == "month":
        months = today.year * 12 + today.month - 1 + by
        begin = date(months // 12, months % 12 + 1, 1)
        return begin, date((months + 1) // 12, (months + 1) % 12 + 1, 1)
    begin = date(today.year + by, 1, 1)
    return begin, date(today.year + by + 1, 1, 1)


@dataclass(frozen=True, slots=True)
class _TimeWords:
    """The content of the file ``time_words.toml``."""

    date: re.Pattern[str]
    year: re.Pattern[str]
    weekday: re.Pattern[str]
    last_week: str
    days: Mapping[str, int]
    ago: re.Pattern[str]
    numerals: Mapping[str, int]
    units: Mapping[str, str]
    relative: Sequence[tuple[re.Pattern[str], str, int]]


@cache
def _time_words() -> _TimeWords:
    text = (files("nekro_core.memory.search") / "time_words.toml").read_text("utf-8")
    content = tomllib.loads(text)
    numerals = {
        word: int(number) for number, words in content["numerals"].items() for word in words.split()
    }
    units = {word: unit for unit, words in content["units"].items() for word in words.split()}
    number, unit = ("|".join(sorted(each, key=len, reverse=True)) for each in (numerals, units))
    between, ago = content["between"], content["ago"]
    return _TimeWords(
        date=re.compile(content["date"]),
        year=re.compile(content["year"]),
        weekday=re.compile(content["weekday"]),
        last_week=content["last_week"],
        days={each: day for day, some in enumerate(content["days"]) for each in some},
        ago=re.compile(
            rf"([0-9]{{1,3}}|{number})\s?(?:{between})?\s?({unit})\s?({ago})", re.IGNORECASE
        ),
        numerals=numerals,
        units=units,
        relative=[
            (re.compile(pattern, re.IGNORECASE), unit, int(by))
            for unit, some in content["relative"].items()
            for by, pattern in some.items()
        ],
    )
