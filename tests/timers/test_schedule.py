"""A recurring timer has the right due times."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.timers import BadSchedule, Schedule, WorkdayMode, parsed_cron

SHANGHAI, BERLIN = "Asia/Shanghai", "Europe/Berlin"


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def said(moment: float | None, zone: str = "UTC") -> str:
    assert moment is not None
    return datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %z")


@pytest.mark.parametrize(
    ("cron", "zone", "mode", "after", "due"),
    [
        ("30 7 * * *", "UTC", "none", "2026-11-22 07:29", "2026-11-22 07:30 +0000"),
        ("30 7 * * *", "UTC", "none", "2026-11-22 07:30", "2026-11-23 07:30 +0000"),
        ("@daily", SHANGHAI, "none", "2026-11-22 07:30", "2026-11-23 00:00 +0800"),
        ("0 9 * * *", SHANGHAI, "mon_fri", "2026-11-20 10:00", "2026-11-23 09:00 +0800"),
        ("0 9 * * *", SHANGHAI, "weekend", "2026-11-22 10:00", "2026-11-28 09:00 +0800"),
        # In 2026 the days from 1 October are holidays. In exchange, Saturday the 10th is a workday.
        ("0 9 * * *", SHANGHAI, "cn_workday", "2026-09-30 10:00", "2026-10-08 09:00 +0800"),
        ("0 9 * * *", SHANGHAI, "cn_workday", "2026-10-09 10:00", "2026-10-10 09:00 +0800"),
        ("0 9 * * *", SHANGHAI, "cn_restday", "2026-10-09 10:00", "2026-10-11 09:00 +0800"),
        ("* * * * *", SHANGHAI, "weekend", "2026-11-22 23:59", "2026-11-28 00:00 +0800"),
        ("0 0 29 2 *", "UTC", "none", "2026-11-22 07:30", "2028-02-29 00:00 +0000"),
        ("0 0 L * *", "UTC", "none", "2026-11-22 07:30", "2026-11-30 00:00 +0000"),
        ("0 8 * * mon#1", "UTC", "none", "2026-11-22 07:30", "2026-12-07 08:00 +0000"),
        # Clocks go forward at 2:00 on 29 March. A due time in the skipped hour is moved to the end
        # of this hour.
        ("30 2 * * *", BERLIN, "none", "2026-03-28 12:00", "2026-03-29 03:00 +0200"),
        # Clocks go back at 3:00 on 25 October. A due time in the repeated hour counts only once.
        ("30 2 * * *", BERLIN, "none", "2026-10-24 12:00", "2026-10-25 02:30 +0200"),
    ],
)
def test_the_next_due_time_of_each_schedule_is_found(
    cron: str, zone: str, mode: str, after: str, due: str
) -> None:
    schedule = Schedule.parse(cron, zone, mode)
    assert said(schedule.next_after(at(after, zone)), zone) == due


def test_a_due_time_in_a_repeated_hour_counts_once() -> None:
    schedule = Schedule.parse("30 2 * * *", BERLIN)
    first = schedule.next_after(at("2026-10-25 00:00", BERLIN))
    assert first is not None
    # Some of these moments are in the second hour from 2:00 to 3:00. From there, a naive search
    # would find 2:30 a second time.
    for minutes in (0, 30, 45, 60, 75, 90):
        assert said(schedule.next_after(first + minutes * 60), BERLIN) == "2026-10-26 02:30 +0100"


@pytest.mark.parametrize(
    ("cron", "zone", "mode", "complaint"),
    [
        ("", "", "none", "expected five fields"),
        ("* * * * * *", "", "none", "expected five fields"),
        ("@reboot", "", "none", "expected five fields"),
        ("61 * * * *", "", "none", "Bad minute"),
        ("0 0 31 2 *", "", "none", "Bad day-of-month"),
        ("0 0 * * 9", "", "none", "Bad day-of-week"),
        ("x" * 5000, "", "none", "expected five fields"),
        ("0 9 * * *", "Mars/Olympus", "none", "time zone 'Mars/Olympus'"),
        ("0 9 * * *", "../../etc/passwd", "none", "expected a name such as"),
        ("0 9 * * *", "", "sundays", "expected one of none, mon_fri"),
        ("0 9 * * 6", "UTC", "mon_fri", "no such time ever comes"),
    ],
)
def test_the_error_says_what_is_wrong_with_a_schedule(
    cron: str, zone: str, mode: str, complaint: str
) -> None:
    with pytest.raises(BadSchedule, match=complaint):
        Schedule.parse(cron, zone, mode)


def test_there_is_no_due_time_beyond_the_calendar() -> None:
    assert Schedule.parse("@daily", "UTC").next_after(1e18) is None


def test_future_holidays_that_are_not_published_yet_count_as_weekdays(
    capfd: pytest.CaptureFixture[str],
) -> None:
    schedule = Schedule("0 9 * * *", SHANGHAI, WorkdayMode.CN_WORKDAY)
    assert said(schedule.next_after(at("2099-01-01 10:00", SHANGHAI)), SHANGHAI).startswith(
        "2099-01-02"  # this is a Friday
    )


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/7", "5,25,45", "10-20", "59"]),
    st.sampled_from(["*", "0", "2", "*/5", "1-3", "23"]),
    st.sampled_from(["*", "1", "*/2", "28-31"]),
    st.sampled_from(["*", "2", "3,10", "*/3"]),
    st.sampled_from(["*", "0", "1-5", "6,7"]),
)
ZONES = st.sampled_from(["UTC", SHANGHAI, BERLIN, "America/New_York", "Asia/Kathmandu"])
MOMENTS = st.integers(int(at("2024-01-01 00:00")), int(at("2028-12-31 00:00")))


@settings(max_examples=60)
@given(FIELDS, ZONES, st.sampled_from(list(WorkdayMode)), MOMENTS)
def test_due_times_are_ordered_and_do_not_depend_on_when_the_bot_started(
    fields: tuple[str, ...], zone: str, mode: WorkdayMode, moment: int
) -> None:
    """The bot may start at any moment. The due times after this moment must be the same as without
    the restart, else a time could be announced twice or never."""
    schedule = Schedule(parsed_cron(" ".join(fields)), zone, mode)
    times = list(islice(schedule.times_after(moment), 5))
    assert times == sorted(set(times))
    assert all(time > moment for time in times)
    for index, time in enumerate(times[:-1]):
        assert schedule.next_after(time) == times[index + 1]
        assert schedule.next_after(time - 1) == time
        assert schedule.next_after(time + 0.5) == times[index + 1]


def _has(cron: str, moment: datetime) -> bool:
    """A naive implementation of cron(5) for the expressions of the test below."""
    minute, hour, *_ = cron.split()
    now = (moment.minute, moment.hour)
    for field, value in zip((minute, hour), now, strict=True):
        step = int(field[2:]) if field.startswith("*/") else 1
        if not (field.startswith("*") and value % step == 0) and field != str(value):
            return False
    return True


@settings(max_examples=25)
@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 */3 * * *", "15 4 * * *", "59 23 * * *"]),
    st.sampled_from(["UTC", SHANGHAI]),
    MOMENTS,
)
def test_no_due_minute_is_missed(cron: str, zone: str, moment: int) -> None:
    """The due times are compared with a check of every minute of a day."""
    begin = datetime.fromtimestamp(moment - moment % 60, UTC)
    expected = [
        minute.timestamp()
        for number in range(1, 24 * 60 + 1)
        if _has(cron, (minute := begin + timedelta(minutes=number)).astimezone(ZoneInfo(zone)))
    ]
    found = []
    for time in Schedule(cron, zone).times_after(begin.timestamp()):
        if time > begin.timestamp() + 86_400:
            break
        found.append(time)
    assert found == expected
