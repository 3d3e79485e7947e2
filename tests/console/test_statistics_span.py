"""An operator enters the first and the last day of the statistics."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from nekro_core.console.statistics_span import OWN, SpanChoice


async def _changed() -> None:
    """Nothing is drawn in these tests."""


def entered(first: str, last: str) -> dict[str, Any] | None:
    """The span of two entered days."""
    view: Any = SimpleNamespace()
    choice = SpanChoice(view, _changed)
    choice._chosen = OWN
    days: Any = [SimpleNamespace(value=day) for day in (first, last)]
    choice._begin, choice._end = days
    return choice.span()


def test_a_span_of_two_days_ends_at_the_end_of_the_second_day() -> None:
    span = entered("2026-03-01", "2026-03-02")
    assert span is not None
    assert span["until"] - span["since"] == pytest.approx(2 * 86_400, abs=3600)


@pytest.mark.parametrize("last", ["9999-12-31", "9999-12-30", "3000-01-01"])
def test_a_span_that_ends_in_the_future_ends_now(last: str) -> None:
    span = entered("2026-03-01", last)
    assert span is not None
    assert span["until"] == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize(
    "days",
    [("", "2026-03-01"), ("2026-03-02", "2026-03-01"), ("0001-01-01", "2026-03-01"), ("x", "y")],
)
def test_days_that_are_no_span_are_refused(days: tuple[str, str]) -> None:
    assert entered(*days) is None
