"""`RateWindow` limits how often something happens, and says when it may happen again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.system.rate_window import RateWindow


def test_a_full_window_opens_when_its_oldest_entry_has_left() -> None:
    window = RateWindow((2, 10.0))
    window.take(0.0)
    assert window.wait_s(3.0) == 0.0
    window.take(3.0)
    assert window.wait_s(3.0) == 7.0
    assert window.wait_s(9.5) == 0.5
    assert window.wait_s(10.0) == 0.0
    window.take(10.0)
    assert window.wait_s(10.0) == 3.0


def test_the_limit_with_the_longest_wait_decides() -> None:
    window = RateWindow((2, 10.0), (3, 100.0))
    for now in (0.0, 1.0):
        window.take(now)
    assert window.wait_s(1.0) == 9.0
    window.take(10.0)
    assert window.wait_s(11.0) == 89.0
    assert window.wait_s(100.0) == 0.0


def test_a_limit_of_zero_is_not_a_limit() -> None:
    window = RateWindow((0, 10.0))
    for _ in range(100):
        window.take(1.0)
    assert window.wait_s(1.0) == 0.0
    assert window.count(1.0) == 0


@pytest.mark.parametrize(("now", "count"), [(3.0, 2), (9.9, 2), (10.0, 1), (13.0, 0)])
def test_entries_older_than_the_longest_limit_are_not_counted(now: float, count: int) -> None:
    window = RateWindow((5, 10.0), (2, 1.0))
    assert window.count(0.0) == 0
    for at in (0.0, 3.0):
        window.take(at)
    assert window.count(now) == count


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 5), st.integers(1, 40))
def test_a_caller_that_waits_wait_s_seconds_stays_within_the_limit(
    pauses: list[int], count: int, seconds: int
) -> None:
    window, now, taken = RateWindow((count, float(seconds))), 0.0, list[float]()
    for pause in pauses:
        now += pause
        before = len([each for each in taken if each > now - seconds])
        assert (window.wait_s(now) > 0) == (before >= count)
        now += window.wait_s(now)
        window.take(now)
        taken.append(now)
        assert len([each for each in taken if each > now - seconds]) <= count


def test_entries_above_the_limit_are_counted_too() -> None:
    """A retry by an operator does not wait itself, but it is counted, so later entries wait
    longer."""
    window = RateWindow((2, 10.0))
    for now in (0.0, 1.0, 2.0, 3.0):
        window.take(now)
    assert window.wait_s(4.0) == 8.0
