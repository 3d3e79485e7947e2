"""Limits say which bound was met, what was counted, and what was allowed."""

import pytest

from nekro_core.agent.limits import LimitExceeded, Limits, StepLimit, TimeLimit, TokenLimit
from nekro_core.llm.model import Usage

SPENT = Usage(prompt_tokens=70, completion_tokens=30)


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
