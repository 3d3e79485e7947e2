"""Limits say which bound was met, what was counted, and what was allowed."""

import pytest

from nekro_core.llm.model import Price, RequestUsage
from nekro_core.policy.limits import (
    LimitExceeded,
    Limits,
    MoneyLimit,
    StepLimit,
    TimeLimit,
    TokenLimit,
    TurnsLimit,
)

SPENT = RequestUsage(prompt_tokens=70, completion_tokens=30)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_first_that_is_met_is_raised() -> None:
    clock = Clock()
    limits = Limits((StepLimit(3), TokenLimit(150), TimeLimit(10, clock, clock())))
    limits.check()
    limits.spend(SPENT)
    limits.check()
    limits.spend(SPENT)
    with pytest.raises(LimitExceeded) as found:
        limits.check()
    assert (found.value.kind, found.value.value, found.value.limit) == ("tokens", 200, 150)
    assert str(found.value) == "tokens: 200 of at most 150"


@pytest.mark.parametrize(("passed", "met"), [(9.9, False), (10.0, True)])
def test_time(passed: float, met: bool) -> None:
    clock = Clock()
    limit = TimeLimit(10, clock, clock())
    clock.now += passed
    if met:
        with pytest.raises(LimitExceeded, match="seconds"):
            limit.check()
    else:
        limit.check()


def test_a_day_counts_what_was_used_before() -> None:
    limits = Limits(())
    limits.add(TokenLimit(100, 90, kind="chat_day"))
    limits.check()
    limits.spend(SPENT)
    with pytest.raises(LimitExceeded) as found:
        limits.check()
    assert found.value.kind == "chat_day"


def test_what_a_day_costs() -> None:
    limits = Limits((MoneyLimit(1.0, 0.75, kind="chat_day"), TurnsLimit(3, 2, kind="user_day")))
    limits.spend(SPENT, 0.125)
    limits.check()
    limits.spend_beside(SPENT, 0.125)
    with pytest.raises(LimitExceeded, match="chat_day: 1 of at most 1"):
        limits.check()
    with pytest.raises(LimitExceeded, match="user_day: 3 of at most 3"):
        Limits((TurnsLimit(3, 3, kind="user_day"),)).check()


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (Price(), 0.0),
        (Price(prompt=2.0, completion=8.0), 6.0),
        (Price(prompt=2.0, completion=8.0, cached=0.5), 5.4),
        (Price(cached=1.0), 0.4),
    ],
)
def test_what_a_request_costs(price: Price, cost: float) -> None:
    used = RequestUsage(prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=400_000)
    assert price.of(used) == pytest.approx(cost)
    assert price.of(RequestUsage(prompt_tokens=10, completion_tokens=0, cached_tokens=99)) >= 0
