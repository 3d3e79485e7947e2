"""Each due time is announced once, however often the bot restarts or the clock is set."""

from dataclasses import dataclass, field, replace
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.chat import ChatKey
from nekro_core.store import TimerRow
from nekro_core.timers.due import after_firing, due_text, rescheduled, schedule_of
from nekro_core.timers.schedule import Schedule

GROUP = ChatKey.parse("onebot_v11-group_30003")
BEGIN = 1_795_000_000.0
ROW = TimerRow(timer_id="t1", chat_key=GROUP, kind="recurring", state="active", text="tea")
DAY = 86_400.0


@dataclass
class World:
    """Simulates a stored timer, a clock, and a process that may restart at any moment."""

    disk: TimerRow
    now: float = BEGIN
    announced: list[tuple[float, float]] = field(default_factory=list)
    """Each due time that was announced, and when it was announced."""
    seen: float = BEGIN

    def look(self) -> None:
        """Do what `TimerScheduler` does. Leave out the unique key of the database, which would
        prevent a second announcement."""
        if self.now < self.seen:
            self.disk = rescheduled(self.disk, self.now)
        self.seen = self.now
        while self.disk.state == "active" and 0 < self.disk.due <= self.now:
            due, self.disk = self.disk.due, after_firing(self.disk, self.now)
            self.announced.append((due, self.now))

    def restart(self) -> None:
        self.seen = self.now
        self.disk = rescheduled(self.disk, self.now)
        self.look()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(1, 900)),
        st.tuples(st.just("away"), st.integers(1, 200_000)),
        st.tuples(st.just("back"), st.integers(1, int(DAY) // 12)),
        st.tuples(st.just("kill"), st.just(0)),
    ),
    max_size=12,
)
CRONS = st.sampled_from(["* * * * *", "*/10 * * * *", "0 * * * *", "30 7 * * *", "0 0 1 * *"])


@settings(max_examples=50)
@given(CRONS, st.sampled_from(["UTC", "Europe/Berlin"]), STEPS)
def test_each_due_time_is_announced_once(
    cron: str, zone: str, steps: list[tuple[str, int]]
) -> None:
    schedule = Schedule(cron, zone)
    due = schedule.next_after(BEGIN)
    assert due is not None
    world = World(replace(ROW, cron=cron, timezone=zone, due=due))
    newest = BEGIN
    for what, seconds in steps:
        if what == "pass":
            for _ in range(seconds // 90 + 1):
                world.now += 90
                world.look()
        elif what == "away":
            world.now += seconds
            world.restart()
        elif what == "back":
            world.now -= seconds
            world.look()
        else:
            world.restart()
        newest = max(newest, world.now)
        assert world.disk.state == "active"
        assert world.disk.due > world.now
    dues = [due for due, _ in world.announced]
    assert len(dues) == len(set(dues))
    assert dues == sorted(dues)
    assert all(due <= when for due, when in world.announced)
    assert all(schedule.next_after(due - 1) == due for due in dues)
    # No due time is lost: after each past due time there was an announcement, either of this due
    # time or of an earlier one. One late announcement stands for all due times that were missed.
    for came in islice(schedule.times_after(BEGIN), 100):
        if came > newest:
            break
        announced = [pair for pair in world.announced if pair[0] <= came]
        assert announced, came
        assert max(when for _, when in announced) >= came


def test_a_clock_that_was_years_ahead_does_not_silence_a_timer() -> None:
    world = World(replace(ROW, cron="0 * * * *", timezone="UTC", due=BEGIN + 10))
    world.now += 5 * 365 * DAY
    world.look()
    assert len(world.announced) == 1
    world.now = BEGIN + 60
    world.look()
    assert world.disk.due <= BEGIN + 3700
    world.now += 3600
    world.look()
    assert len(world.announced) == 2


def test_a_one_time_timer_is_finished_after_it_fired() -> None:
    row = replace(ROW, kind="once", due=BEGIN)
    over = after_firing(row, BEGIN + 5)
    assert (over.state, over.told_due, over.due) == ("over", BEGIN, 0.0)


def test_a_timer_whose_schedule_has_no_later_due_time_is_finished() -> None:
    # The calendar ends before the next 29 February.
    row = replace(ROW, cron="0 0 29 2 *", timezone="UTC", due=BEGIN)
    assert after_firing(row, 253_402_300_000.0).state == "over"


def test_the_line_says_how_late_the_timer_is() -> None:
    row = replace(ROW, cron="0 * * * *", timezone="UTC", due=BEGIN - BEGIN % 3600, title="pause")
    assert due_text(row, row.due + 1) == 'The recurring timer "pause" (t1) is due: tea'
    late = due_text(row, row.due + 3 * 3600 + 5)
    assert "It was due at 2026-11-18 11:00, when the bot was not there." in late
    assert "3 more of its times have passed since." in late
    assert "One more of its times has" in due_text(row, row.due + 3605)
    once = replace(row, kind="once", title="")
    assert due_text(once, row.due) == "A timer that was set in this chat is due: tea"
    assert "more" not in due_text(once, row.due + 10_000)


def test_the_schedule_of_a_timer_is_read_from_its_row() -> None:
    row = replace(ROW, cron="0 9 * * *", timezone="Asia/Tokyo", workdays="weekend")
    assert schedule_of(row) == Schedule.parse("0 9 * * *", "Asia/Tokyo", "weekend")
