"""Reads the times that a question names ("last week", "三月", "先月"), and those of filters."""

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, tzinfo

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
_NUMERALS = {
    **{word: n for n, word in enumerate("零一二三四五六七八九十", 0)},
    "两": 2,
    "几": 3,
    "数": 3,
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    **{"十" + ones: 10 + n for n, ones in enumerate("一二", 1)},
}
_NUMERAL = f"(?:[0-9]{{1,3}}|{'|'.join(sorted(_NUMERALS, key=len, reverse=True))})"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_YEARS_BACK = 10
"""A month without a year may be that of each of so many years."""

_DATE = re.compile(r"\b((?:19|20)\d\d)[-/.](\d{1,2})[-/.](\d{1,2})\b")
_CJK_DATE = re.compile(
    r"(?:((?:19|20)\d\d)年)?(\d{1,2}|十一|十二|[一二三四五六七八九十])月(?:份)?(?:(\d{1,2})[日号號])?"
)
_CJK_YEAR = re.compile(r"((?:19|20)\d\d)年(?!\d|[一二三四五六七八九十]{1,2}月)")
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
_AGO = re.compile(
    rf"({_NUMERAL})\s?(?:个|か|ヶ|カ|箇)?\s?"
    r"(days?|weeks?|months?|years?|天|日|周|星期|礼拜|週間|週|月|年)\s?(ago|前|以前|之前)",
    re.IGNORECASE,
)
_RELATIVE_WEEKDAY = re.compile(
    rf"\b(?:last|this|on) (?P<english>{'|'.join(_WEEKDAYS)})\b"
    r"|(?P<chinese>上周|上星期|这周|本周|先週の?|今週の?)(?P<day>[一二三四五六日天月火水木金土])",
    re.IGNORECASE,
)
_CJK_DAYS = {
    "一": 0,
    "月": 0,
    "二": 1,
    "火": 1,
    "三": 2,
    "水": 2,
    "四": 3,
    "木": 3,
    "五": 4,
    "金": 4,
    "六": 5,
    "土": 5,
    "日": 6,
    "天": 6,
}

_RELATIVE = (
    (r"\btoday\b|\bthis (?:morning|afternoon|evening)\b|\btonight\b", "day", 0),
    ("今天|今日|今晚|今早|今朝|今夜", "day", 0),
    (r"\byesterday\b|\blast night\b|昨天|昨晚|昨日|昨夜|きのう", "day", -1),
    (r"day before yesterday|前天|一昨日|おととい", "day", -2),
    (r"\bthis week\b|这周|本周|这个?星期|这个?礼拜|今週", "week", 0),
    (r"\blast week\b|上周|上个?星期|上个?礼拜|先週", "week", -1),
    (r"week before last|上上周|上上个?星期|先々週", "week", -2),
    (r"\bthis month\b|这个月|本月|今月", "month", 0),
    (r"\blast month\b|上个月|上月|先月", "month", -1),
    (r"month before last|上上个?月|先々月", "month", -2),
    (r"\bthis year\b|今年", "year", 0),
    (r"\blast year\b|去年|昨年", "year", -1),
    (r"year before last|前年|一昨年|おととし", "year", -2),
)
_RELATIVES = tuple((re.compile(each, re.IGNORECASE), unit, by) for each, unit, by in _RELATIVE)
_UNITS = {
    "day": "day", "days": "day", "天": "day", "日": "day",
    "week": "week", "weeks": "week", "周": "week", "星期": "week", "礼拜": "week", "週": "week",
    "週間": "week", "month": "month", "months": "month", "月": "month",
    "year": "year", "years": "year", "年": "year",
}  # fmt: skip


class BadDate(NekroError, ValueError):
    """A text is no date. The text of the error says what was expected."""


def parse_date(text: str, zone: tzinfo | None, *, end: bool) -> float:
    """Read the date of a filter.

    Args:
        text: A date such as ``2025-03-08``, or with a time as ``2025-03-08T21:14``.
        zone: The time zone of the date, unless it names one; None for the machine's.
        end: Whether it ends a span. Then a date without a time means the end of that day.

    Returns:
        Seconds since 1970.

    Raises:
        BadDate: The text is no date.
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
        now: The present time; "last week" is relative to it.
        zone: The time zone; None for the machine's.

    Returns:
        The time spans. A month without a year gives that of each of the last ten years.
    """
    try:
        today = datetime.fromtimestamp(now, zone).date()
        return [
            (_midnight(begin, zone), _midnight(end, zone))
            for begin, end in _dates_in(text, today)
            if end.year > 1970
        ]
    except (ValueError, OverflowError, OSError):
        return []  # A year or a clock that is far off.


def without_relative_times(text: str) -> str:
    """Remove times that are relative to now, such as "last week". Messages have these words too,
    and mean another time with them."""
    for pattern in (_RELATIVE_WEEKDAY, _AGO, *(each for each, _, _ in _RELATIVES)):
        text = pattern.sub(" ", text)
    return text


def _midnight(day: date, zone: tzinfo | None) -> float:
    return datetime.combine(day, time.min, zone).timestamp()


def _dates_in(text: str, today: date) -> Iterator[tuple[date, date]]:
    for year, month, day in _DATE.findall(text):
        yield from _calendar(today, int(year), int(month), int(day))
    for year, month, day in _CJK_DATE.findall(text):
        number = int(month) if month.isdigit() else _NUMERALS[month]
        yield from _calendar(today, int(year or 0), number, int(day or 0))
    for year in _CJK_YEAR.findall(text) + _ENGLISH_YEAR.findall(text):
        yield date(int(year), 1, 1), date(int(year) + 1, 1, 1)
    for pattern in _ENGLISH_DATES:
        for match in pattern.finditer(text):
            month = _MONTHS[match["month"].lower()]
            yield from _calendar(today, int(match["year"] or 0), month, int(match["day"] or 0))
    for number, unit, _ in _AGO.findall(text):
        count = int(number) if number.isdigit() else _NUMERALS[number.lower()]
        yield _unit(today, _UNITS[unit.lower()], -count, vague=True)
    for pattern, unit, by in _RELATIVES:
        if pattern.search(text):
            yield _unit(today, unit, by)
    for match in _RELATIVE_WEEKDAY.finditer(text):
        yield _weekday(today, match)


def _calendar(today: date, year: int, month: int, day: int) -> Iterator[tuple[date, date]]:
    """Yield the spans of a date whose year or day may be unknown (0)."""
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
    """Return the day, week, month or year that is ``by`` units from the present one. A vague one
    ("two weeks ago") is wider: it lasts from half a unit before to half a unit after."""
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


def _weekday(today: date, match: "re.Match[str]") -> tuple[date, date]:
    monday = today - timedelta(days=today.weekday())
    if match["english"]:
        day = today - timedelta(
            days=(today.weekday() - _WEEKDAYS.index(match["english"].lower()) - 1) % 7 + 1
        )
    else:
        last = match["chinese"][0] in "上先"
        day = monday + timedelta(days=_CJK_DAYS[match["day"]] - 7 * last)
    return day, day + timedelta(days=1)
