"""The times in questions and the dates in filters are parsed."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from nekro_core.memory.search.dates import BadDate, parse_date, spans_in

NOW = datetime(2025, 11, 20, 15, 30, tzinfo=UTC).timestamp()
"""The day is a Thursday."""


def days(text: str) -> list[tuple[str, str]]:
    return [(_day(begin), _day(end)) for begin, end in spans_in(text, NOW, UTC)]


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("What did she say yesterday?", "2025-11-19", "2025-11-20"),
        ("what was decided last week", "2025-11-10", "2025-11-17"),
        ("our plans of last month", "2025-10-01", "2025-11-01"),
        ("the trip on 7 May 2023", "2023-05-07", "2023-05-08"),
        ("the trip on May 7th, 2023", "2023-05-07", "2023-05-08"),
        ("who came in March", "2025-03-01", "2025-04-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("two weeks ago", "2025-11-03", "2025-11-10"),
        ("last Monday", "2025-11-17", "2025-11-18"),
        ("2025-03-08 的照片", "2025-03-08", "2025-03-09"),
        ("昨天说了什么", "2025-11-19", "2025-11-20"),
        ("上周三吃的什么", "2025-11-12", "2025-11-13"),
        ("上个月的聚餐", "2025-10-01", "2025-11-01"),
        ("三月二号", "2025-03-01", "2025-04-01"),
        ("3月8号", "2025-03-08", "2025-03-09"),
        ("去年的旅行", "2024-01-01", "2025-01-01"),
        ("先月の旅行", "2025-10-01", "2025-11-01"),
        ("昨日の話", "2025-11-19", "2025-11-20"),
        ("八月の花火", "2025-08-01", "2025-09-01"),
        ("2024年のキャンプ", "2024-01-01", "2025-01-01"),
        ("3日前", "2025-11-17", "2025-11-18"),
    ],
)
def test_a_time_in_a_question_is_understood(text: str, begin: str, end: str) -> None:
    assert (begin, end) in days(text)


@pytest.mark.parametrize("text", ["May I ask?", "a second hand car", "march on", "ok"])
def test_words_that_only_look_like_times_are_not_times(text: str) -> None:
    assert days(text) == []


def test_a_month_without_a_year_means_the_named_month_of_each_of_ten_years() -> None:
    assert len(days("in March")) == 10


def test_a_date_is_in_the_time_zone_of_the_bot() -> None:
    zone = ZoneInfo("Asia/Shanghai")
    begin = parse_date("2025-03-08", zone, end=False)
    assert datetime.fromtimestamp(begin, UTC).isoformat() == "2025-03-07T16:00:00+00:00"
    assert parse_date("2025-03-08", zone, end=True) - begin == 86_400
    assert parse_date("2025-03-08T00:01", zone, end=True) - begin == 60


@pytest.mark.parametrize("text", ["yesterday", "08.03.2025", "2025-02-30", "", "2025-03-08T99:00"])
def test_a_bad_date_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(BadDate, match=r"is no date: write 2025-03-08, or 2025-03-08T21:14"):
        parse_date(text, None, end=False)
