"""Reads days as people write them, and computes with days and times of day.

A day is a text in English, Chinese or Japanese: ``2026-12-25``, ``25 December``, ``next Friday``,
``明天``, ``クリスマス``. Weekdays and dates are written in the language ``en``, ``zh`` or ``ja``.
"""

from __future__ import annotations

import calendar
import re
from datetime import date, datetime, timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = {name[:3]: number for number, name in enumerate(_MONTHS, start=1)}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_HAN = "一二三四五六日"
_KANJI = "月火水木金土日"
_RELATIVE = {
    **dict.fromkeys(("", "today", "now", "今天", "今日", "本日", "きょう", "现在", "今"), 0),
    **dict.fromkeys(("tomorrow", "明天", "明日", "あした", "あす"), 1),
    **dict.fromkeys(("day after tomorrow", "后天", "明後日", "あさって"), 2),
    **dict.fromkeys(("yesterday", "昨天", "昨日", "きのう"), -1),
    **dict.fromkeys(("day before yesterday", "前天", "一昨日", "おととい"), -2),
}
_FEASTS = {
    (1, 1): "new year|new years day|元旦|新年|元日|正月|お正月",
    (2, 14): "valentine|valentines day|情人节|バレンタイン|バレンタインデー",
    (3, 8): "womens day|妇女节",
    (3, 17): "st patricks day|saint patricks day",
    (4, 1): "april fools|april fools day|愚人节|エイプリルフール",
    (5, 1): "labour day|may day|劳动节|五一|五一劳动节",
    (6, 1): "childrens day|儿童节",
    (5, 5): "こどもの日|子供の日",
    (7, 4): "independence day",
    (7, 7): "七夕|たなばた",
    (10, 1): "国庆|国庆节|十一",
    (10, 31): "halloween|万圣节|ハロウィン|ハロウィーン",
    (12, 24): "christmas eve|平安夜|クリスマスイブ",
    (12, 25): "christmas|christmas day|xmas|圣诞|圣诞节|クリスマス",
    (12, 31): "new years eve|除夕夜|跨年|大晦日",
}
_FEAST = {name: day for day, names in _FEASTS.items() for name in names.split("|")}
_SPRING = ("春节", "农历新年", "旧正月", "chinese new year", "lunar new year", "spring festival")
_SPRING_DAYS = {
    2025: (1, 29),
    2026: (2, 17),
    2027: (2, 6),
    2028: (1, 26),
    2029: (2, 13),
    2030: (2, 3),
    2031: (1, 23),
    2032: (2, 11),
    2033: (1, 31),
    2034: (2, 19),
    2035: (2, 8),
}
_EASTER = ("easter", "easter sunday", "复活节", "イースター", "復活祭")
_YMD = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})\s*[日号]?")
_MD = re.compile(r"(\d{1,2})\s*[-/月]\s*(\d{1,2})\s*[日号]?")
_DMY = re.compile(r"(\d{1,2})\.\s*(\d{1,2})\.\s*(\d{4})?")
_NAMED = re.compile(r"([a-z]{3,9})\.? (\d{1,2})(?: (\d{4}))?")
_NAMED_BACK = re.compile(r"(\d{1,2}) (?:of )?([a-z]{3,9})\.?(?: (\d{4}))?")
_MONTH_YEAR = re.compile(r"([a-z]{3,9})\.?(?: (?:of )?(\d{4}))?")
_YEAR_MONTH = re.compile(r"(?:(\d{4})\s*[-/年]\s*)?(\d{1,2})月?")
_CLOCK = re.compile(r"(\d{1,2})(?:[:：.点時时](\d{1,2})?)?\s*分?\s*(am|pm)?")
_AHEAD = re.compile("next|coming|下个?(?:周|星期|礼拜)|明年|来年|来週|次")
"""Words that say that a day is ahead."""
_UNITS = {
    "day": 1,
    "天": 1,
    "日": 1,
    "week": 7,
    "周": 7,
    "星期": 7,
    "週": 7,
    "礼拜": 7,
}
_LATEST_YEAR = 9999
_LATE_NIGHT_ENDS = 5
"""Before this hour, a time with 晚上 or 夜 is after midnight; from this hour on, it is in the
evening."""


class Calendar:
    """Computes with days. ``now`` gives the local time."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def today(self, language: str = "en") -> str:
        """The date of today, with its weekday."""
        return _written(self._now().date(), language)

    def clock(self) -> str:
        """The time of day, such as ``14:05``."""
        return f"{self._now():%H:%M}"

    def weekday(self, day: str = "today", language: str = "en") -> str:
        """The name of a day's weekday."""
        return _weekday_name(self._read(day, ahead=False), language)

    def days_until(self, day: str) -> int:
        """How many days it is from today to a day. A day without a year is the next one."""
        return (self._read(day, ahead=True) - self._now().date()).days

    def days_since(self, day: str) -> int:
        """How many days have passed since a day. A day or a weekday without a year is the last one;
        for a day that is ahead, such as ``tomorrow``, the number is negative."""
        return (self._now().date() - self._last(day)).days

    def _last(self, day: str) -> date:
        """Read a day. If a date, a feast or a weekday has no year, it is the last one, unless the
        words say that it is the next one."""
        found = self._read(day, ahead=False)
        today, text = self._now().date(), _plain(day)
        if found <= today or text in _RELATIVE or _AHEAD.search(day.lower()):
            return found
        if _weekday_number(text) is not None:
            # The last Saturday is never today, like the next one.
            return found - timedelta(days=14 if found.weekday() == today.weekday() else 7)
        if re.search(r"\d{4}", day):
            return found
        year_before = _moved(found, -12)
        # Some feasts have another date each year.
        before = Calendar(lambda: datetime(year_before.year, 1, 1))  # noqa: DTZ001
        return before._read(day, ahead=False) if _is_feast(text) else year_before

    def days_between(self, first: str, second: str) -> int:
        """How many days are between two days."""
        return abs((self._read(second, ahead=False) - self._read(first, ahead=False)).days)

    def date_after(
        self, count: float, unit: str = "days", day: str = "today", language: str = "en"
    ) -> str:
        """The date some days, weeks, months or years after a day; before it, if ``count`` is
        negative."""
        start = self._read(day, ahead=False)
        name = unit.strip().lower()
        number = int(count)
        if name.startswith(("month", "个月", "月", "ヶ月", "か月", "カ月")):
            return _written(_moved(start, number), language)
        if name.startswith(("year", "年")):
            return _written(_moved(start, 12 * number), language)
        for known, days in _UNITS.items():
            if name.startswith(known):
                return _written(start + timedelta(days=number * days), language)
        raise ValueError(f"{unit!r} is no unit of date_after: use days, weeks, months or years")

    def years_since(self, day: str | int) -> int:
        """How many whole years have passed since a day or a year: an age."""
        text, now = str(day).strip().rstrip("年"), self._now().date()
        if text.isdecimal() and len(text) == 4:
            return now.year - int(text)
        found = self._read(text, ahead=False)
        return now.year - found.year - ((now.month, now.day) < (found.month, found.day))

    def days_in(self, month: str | int) -> int:
        """How many days a month or a year has, such as ``February 2028``, ``2028``."""
        text = str(month).strip().lower().replace(",", "")
        year = text.rstrip("年")
        if year.isdecimal() and len(year) == 4:
            return 366 if calendar.isleap(int(year)) else 365
        if (match := _MONTH_YEAR.fullmatch(text)) and match[1][:3] in _MONTH:
            return calendar.monthrange(int(match[2] or self._now().year), _MONTH[match[1][:3]])[1]
        if (match := _YEAR_MONTH.fullmatch(text)) and 1 <= int(match[2]) <= 12:
            return calendar.monthrange(int(match[1] or self._now().year), int(match[2]))[1]
        raise ValueError(f"{month!r} is no month: write it as February 2028 or 2028-02")

    def time_after(self, clock: str, count: float, unit: str = "minutes") -> str:
        """The time of day some minutes or hours after a time; before it, if ``count`` is
        negative."""
        start = self._minutes(clock)
        hours = unit.strip().lower().startswith(("hour", "h", "小时", "时", "時", "钟头"))
        moment = round(start + count * (60 if hours else 1)) % (24 * 60)
        return f"{moment // 60}:{moment % 60:02}"

    def minutes_between(self, first: str, second: str) -> int:
        """How many minutes it is from one time of day to the next time that the clock shows the
        other."""
        return (self._minutes(second) - self._minutes(first)) % (24 * 60)

    def _minutes(self, clock: str) -> int:
        text = clock.strip().lower().replace("a.m.", "am").replace("p.m.", "pm").replace("半", "30")
        if text in ("", "now", "现在", "今"):
            return self._now().hour * 60 + self._now().minute
        if text in ("noon", "中午", "正午"):
            return 12 * 60
        if text in ("midnight", "午夜", "真夜中"):
            return 0
        late = text.startswith(("下午", "晚上", "午後", "夜"))
        match = _CLOCK.fullmatch(text.lstrip("上下中午晚早前後夜朝凌晨").strip())
        if not match:
            raise ValueError(f"{clock!r} is no time of day: write it as 14:05")
        hour = int(match[1])
        if text.startswith(("晚上", "夜")) and hour % 12 < _LATE_NIGHT_ENDS:
            hour %= 12  # 晚上12点 is midnight and 夜1時 is after it; 下午12点 is noon
        elif match[3] or late:
            hour = hour % 12 + (12 if late or match[3] == "pm" else 0)
        minute = int(match[2] or 0)
        if hour > 24 or minute > 59:
            raise ValueError(f"{clock!r} is no time of day: write it as 14:05")
        return hour * 60 + minute

    def _read(self, day: str, *, ahead: bool) -> date:
        """Read a day. If a date or feast has no year: with ``ahead`` it is the next one, today
        included; otherwise the one of this year. A weekday is the next one after today, or with the
        word ``last`` the latest one before today."""
        today = self._now().date()
        text = _plain(day)
        if text in _RELATIVE:
            return today + timedelta(days=_RELATIVE[text])
        if (number := _weekday_number(text)) is not None:
            wait = (number - today.weekday()) % 7
            if text.startswith("last ") or day.strip().startswith(("上周", "先週", "上星期")):
                return today - timedelta(days=(today.weekday() - number) % 7 or 7)
            return today + timedelta(days=wait or 7)
        years = re.findall(r"(?<!\d)\d{4}(?!\d)", text)
        name = re.sub(r"\s*\d{4}年?の?\s*", "", text).strip()
        after = _year_after(day)
        if name.removeprefix("next ").removeprefix("明年").removeprefix("来年の") in _SPRING:
            return self._feast(lambda year: date(year, *_spring(year)), years, after, ahead=ahead)
        for word in (name, name.removeprefix("next "), re.sub("^(明年|来年|今年)の?", "", name)):
            if word in _FEAST:
                month, number = _FEAST[word]
                return self._feast(
                    lambda year, m=month, d=number: date(year, m, d), years, after, ahead=ahead
                )
            if word in _EASTER:
                return self._feast(_easter, years, after, ahead=ahead)
        return self._written_day(text, day, after, ahead=ahead)

    def _feast(
        self, of: Callable[[int], date], years: list[str], after: int, *, ahead: bool
    ) -> date:
        today = self._now().date()
        if years:
            return of(int(years[0]))
        found = of(today.year + after)
        return of(today.year + 1) if ahead and found < today else found

    def _written_day(self, text: str, day: str, after: int, *, ahead: bool) -> date:
        year, month, number = 0, 0, 0
        if match := _YMD.fullmatch(text):
            year, month, number = int(match[1]), int(match[2]), int(match[3])
        elif match := _MD.fullmatch(re.sub("^(明年|来年|今年)の?", "", text)):
            month, number = int(match[1]), int(match[2])
        elif match := _DMY.fullmatch(text):
            year, month, number = int(match[3] or 0), int(match[2]), int(match[1])
        elif (match := _NAMED.fullmatch(text)) and match[1][:3] in _MONTH:
            year, month, number = int(match[3] or 0), _MONTH[match[1][:3]], int(match[2])
        elif (match := _NAMED_BACK.fullmatch(text)) and match[2][:3] in _MONTH:
            year, month, number = int(match[3] or 0), _MONTH[match[2][:3]], int(match[1])
        elif (match := _MONTH_YEAR.fullmatch(text)) and match[1][:3] in _MONTH:
            year, month, number = int(match[2] or 0), _MONTH[match[1][:3]], 1
        elif re.fullmatch(r"\d{4}年?", text):
            year, month, number = int(text[:4]), 1, 1
        today = self._now().date()
        if month > 12 >= number:  # a day before its month: 25-12
            month, number = number, month
        try:
            found = date(year or today.year + after, month, number)
            return (
                date(today.year + 1, month, number)
                if (ahead and not year and found < today)
                else found
            )
        except ValueError:
            raise ValueError(f"{day!r} is no day: write it as 2026-12-25, or December 25") from None


def _plain(day: str) -> str:
    text = re.sub(r"[,'’]", "", day.strip().lower())
    text = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", text)
    text = re.sub(r"^(on|the|next year|this year|this|of) ", "", text)
    text = re.sub(r"\s*(next year|this year)$", "", text)
    text = re.sub("[的の]", "", text) if not re.search("[ぁ-ん]{2}", text) else text
    for word in _WEEKDAYS:  # "Friday, 25 December"
        text = re.sub(rf"^{word} (?=.*\d)", "", text)
    return re.sub(r"^the ", "", text).strip(" .?？。")


def _year_after(day: str) -> int:
    return 1 if re.search("next year|明年|来年", day.lower()) else 0


def _is_feast(text: str) -> bool:
    return text in _SPRING or text in _FEAST or text in _EASTER


def _weekday_number(text: str) -> int | None:
    name = text.removeprefix("next ").removeprefix("last ").removeprefix("coming ")
    for number, word in enumerate(_WEEKDAYS):
        if name == word or (len(name) >= 3 and word.startswith(name)):
            return number
    if match := re.fullmatch("[上下这本]?个?(?:周|星期|礼拜|週)([一二三四五六日天])", text):
        return _HAN.index(match[1].replace("天", "日"))
    if match := re.fullmatch("(?:来週|今週|先週|次)?の?([月火水木金土日])曜日?", text):
        return _KANJI.index(match[1])
    return None


def _weekday_name(day: date, language: str) -> str:
    number = day.weekday()
    if language == "zh":
        return f"星期{_HAN[number]}"
    return f"{_KANJI[number]}曜日" if language == "ja" else _WEEKDAYS[number].capitalize()


def _written(day: date, language: str) -> str:
    name = _weekday_name(day, language)
    if language in ("zh", "ja"):
        plain = f"{day.year}年{day.month}月{day.day}日"
        return f"{plain}（{name}）" if language == "ja" else f"{plain} {name}"
    month = _MONTHS[day.month - 1].capitalize()
    return f"{name}, {month} {day.day}, {day.year}"


def _moved(day: date, months: int) -> date:
    """Return the same day some months later; the month's last day if it has no such day."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= _LATEST_YEAR:
        raise ValueError(f"the year {year}: expected 1 to {_LATEST_YEAR}")
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _spring(year: int) -> tuple[int, int]:
    if year not in _SPRING_DAYS:
        known = f"{min(_SPRING_DAYS)} to {max(_SPRING_DAYS)}"
        raise ValueError(f"the Spring Festival of {year} is not known here, only {known}")
    return _SPRING_DAYS[year]


def _easter(year: int) -> date:
    """Return Easter Sunday of the Gregorian calendar (the anonymous algorithm of 1876)."""
    a, b, c = year % 19, year // 100, year % 100
    d, e, g = b // 4, b % 4, (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = c // 4, c % 4
    left = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 22 * left) // 451
    month, day = divmod(h + left - 7 * m + 114, 31)
    return date(year, month, day + 1)
