"""The functions for sums, counts, dates and units that small models call in a box."""

import importlib
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import nekro_core.sandbox.guest
from nekro_core.llm.expression_rules import NUMBER_FUNCTIONS, TEXT_FUNCTIONS

SATURDAY = datetime(2026, 11, 28, 12, 5)  # noqa: DTZ001 - the local time of a box
Functions = dict[str, Callable[..., Any]]


@pytest.fixture(scope="module")
def box() -> Iterator[Functions]:
    """The functions as a box has them. Their modules are only on the path inside a box."""
    folder = str(Path(next(iter(nekro_core.sandbox.guest.__path__))))
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("guest_calculations").functions(lambda: SATURDAY)
    finally:
        sys.path.remove(folder)
        for name in ("calculations", "lazy_calculations", "dates", "units"):
            sys.modules.pop(f"guest_{name}", None)


def test_the_grammar_offers_exactly_these_functions(box: Functions) -> None:
    assert box.keys() == NUMBER_FUNCTIONS.keys() | TEXT_FUNCTIONS.keys()


def test_each_function_is_a_builtin_of_a_run(box: Functions) -> None:
    lazy = importlib.import_module("guest_lazy_calculations")
    assert {*lazy.DATES, *lazy.NUMBERS} == box.keys()


@pytest.mark.parametrize(
    ("day", "days"),
    [
        ("today", 0),
        ("tomorrow", 1),
        ("2026-12-25", 27),
        ("December 25", 27),
        ("the 25th of December", 27),
        ("25.12.2026", 27),
        ("Friday, 25 December 2026", 27),
        ("Christmas", 27),
        ("next Christmas", 27),
        ("圣诞节", 27),
        ("クリスマス", 27),
        ("12月25日", 27),
        ("2026年12月25日", 27),
        ("Friday", 6),
        ("next Saturday", 7),
        ("星期五", 6),
        ("来週の金曜日", 6),
        ("November 27", 364),
        ("明年1月1日", 34),
        ("お正月", 34),
        ("Easter", 120),
        ("春节", 70),
        ("Halloween 2030", 1433),
        ("2026-11-01", -27),
    ],
)
def test_the_days_until_a_day_are_counted_however_the_day_is_written(
    box: Functions, day: str, days: int
) -> None:
    assert box["days_until"](day) == days


@pytest.mark.usefixtures("box")
def test_a_feast_that_is_ahead_this_year_was_last_on_its_own_day_of_the_year_before() -> None:
    today = datetime(2026, 2, 1)  # noqa: DTZ001 - the local time of a box
    since = importlib.import_module("guest_calculations").functions(lambda: today)["days_since"]
    assert since("Easter") == (today.date() - date(2025, 4, 20)).days
    assert since("春节") == (today.date() - date(2025, 1, 29)).days
    assert since("February 28") == (today.date() - date(2025, 2, 28)).days


def test_dates_weekdays_and_ages_are_computed(box: Functions) -> None:
    assert box["days_since"]("January 1, 2020") == 2523
    assert box["days_since"]("December 25") == 338
    assert box["days_between"]("March 3", "May 20") == 78
    for day, days in (
        ("Friday", 1),  # today is a Saturday
        ("sunday", 6),
        ("Saturday", 7),
        ("星期五", 1),
        ("日曜日", 6),
        ("last Friday", 1),
        ("next Friday", -6),
        ("下周五", -6),
        ("today", 0),
        ("tomorrow", -1),
        ("明天", -1),
        ("yesterday", 1),
        ("Christmas", 338),
        ("December 25, 2026", -27),
        ("Easter", 237),
    ):
        assert (day, box["days_since"](day)) == (day, days)
    assert [box["weekday"]("1969-07-20", each) for each in ("en", "zh", "ja")] == [
        "Sunday",
        "星期日",
        "日曜日",
    ]
    assert box["today"]() == "Saturday, November 28, 2026"
    assert box["today"]("zh") == "2026年11月28日 星期六"
    assert box["date_after"](45, "days", "today") == "Tuesday, January 12, 2027"
    assert box["date_after"](-3, "周", "今天", "zh") == "2026年11月7日 星期六"
    assert box["date_after"](3, "months", "2026-11-30") == "Sunday, February 28, 2027"
    assert (box["days_in"]("February 2028"), box["days_in"]("2028年2月")) == (29, 29)
    assert (box["days_in"]("2028"), box["days_in"](2027)) == (366, 365)
    assert box["years_since"](1987) == 39
    assert box["years_since"]("December 4, 1995") == 30


def test_times_of_day_are_computed(box: Functions) -> None:
    assert box["clock"]() == "12:05"
    assert box["time_after"]("14:30", 95) == "16:05"
    assert box["time_after"]("11:45 pm", 0.5, "hours") == "0:15"
    assert box["time_after"]("now", -65, "minutes") == "11:00"
    assert box["minutes_between"]("9:15", "17:40") == 505
    assert box["minutes_between"]("下午3点半", "18時") == 150
    for midnight in ("晚上12点", "夜12時", "夜0時", "midnight"):
        assert box["time_after"](midnight, 30) == "0:30"
    assert box["time_after"]("晚上12点半", 0) == "0:30"
    assert box["time_after"]("夜1時", 0) == "1:00"
    assert box["time_after"]("晚上8点", 0) == "20:00"
    assert box["time_after"]("夜11時半", 0) == "23:30"
    assert box["time_after"]("下午12点", 0) == "12:00"


@pytest.mark.parametrize(
    ("value", "unit", "to", "result"),
    [
        (5, "miles", "km", 8.05),
        (100, "Fahrenheit", "°C", 37.78),
        (30, "摄氏度", "华氏度", 86),
        (70, "公斤", "斤", 140),
        (3.5, "hours", "minutes", 210),
        (1, "day", "seconds", 86400),
        (6, "feet", "centimeters", 182.88),
        (2, "inches", "cm", 5.08),
        (90, "km/h", "m/s", 25),
        (1, "mm", "km", 1e-06),
    ],
)
def test_values_are_converted_from_one_unit_to_another(
    box: Functions, value: float, unit: str, to: str, result: float
) -> None:
    assert box["convert"](value, unit, to) == result


def test_sums_and_counts_of_letters_and_words_are_computed(box: Functions) -> None:
    assert (box["percent_of"](15, 80), box["average_of"](1, 2), box["sqrt"](625)) == (12, 1.5, 25)
    assert box["factorial"](7) == 5040
    assert box["count_in"]("r", "Strawberry") == 3
    assert box["count_in"]("the", "the other, the end") == 2
    assert box["count_in"]("vowels", "education") == 5
    assert (box["letters_in"]("it's 春眠"), box["words_in"]("to be or not")) == (5, 4)
    assert box["reverse_text"]("guitar") == "ratiug"


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("days_until", ("someday",), "write it as 2026-12-25"),
        ("days_until", ("2026-02-30",), "write it as 2026-12-25"),
        ("days_in", ("Brumaire",), "write it as February 2028"),
        ("date_after", (1, "fortnights", "today"), "use days, weeks, months or years"),
        ("date_after", (9e5, "years", "today"), "expected 1 to 9999"),
        ("time_after", ("27:00", 1), "write it as 14:05"),
        ("convert", (1, "cubits", "m"), "'cubits' is no unit"),
        ("convert", (1, "km", "kg"), "'km' is length in m, but 'kg' is mass in kg"),
        ("factorial", (10**9,), "expected 0 to 1000"),
        ("average_of", (), "give at least one"),
        ("sqrt", (-1,), "negative"),
    ],
)
def test_what_cannot_be_computed_is_an_error_that_says_what_to_write(
    box: Functions, name: str, arguments: tuple[Any, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        box[name](*arguments)
