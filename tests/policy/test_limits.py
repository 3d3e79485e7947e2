"""When a limit is reached, the error says which limit it is, what was counted, and what is
allowed."""

import pytest

from nekro_core.agent.settings import TurnSettings
from nekro_core.llm.model import Price, RequestUsage
from nekro_core.policy.limits import (
    Limit,
    LimitExceeded,
    Limits,
    Measure,
    RunSendLimit,
    TimeLimit,
    UsageLimit,
    turn_limits,
)
from nekro_core.policy.quotas import DAY_S
from nekro_core.policy.settings import SendRateSettings
from nekro_core.store import Usage as StoredUsage

SPENT = RequestUsage(prompt_tokens=70, completion_tokens=30)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_error_names_the_first_limit_that_is_reached() -> None:
    clock = Clock()
    limits = Limits(
        (
            UsageLimit(Measure.STEPS, 3),
            UsageLimit(Measure.TOKENS, 150),
            TimeLimit(10, clock, clock()),
        )
    )
    limits.check()
    limits.spend(SPENT)
    limits.check()
    limits.spend(SPENT)
    with pytest.raises(LimitExceeded) as found:
        limits.check()
    assert (found.value.kind, found.value.value, found.value.limit) == ("tokens", 200, 150)
    assert str(found.value) == "tokens: 200 of at most 150"


@pytest.mark.parametrize(("passed", "met"), [(9.9, False), (10.0, True)])
def test_the_time_limit_is_reached_after_its_seconds(passed: float, met: bool) -> None:
    clock = Clock()
    limit = TimeLimit(10, clock, clock())
    clock.now += passed
    if met:
        with pytest.raises(LimitExceeded, match="seconds"):
            limit.check()
    else:
        limit.check()


def test_a_day_limit_includes_earlier_usage() -> None:
    limits = Limits(())
    limits.add(UsageLimit(Measure.TOKENS, 100, 90, kind="chat_day"))
    limits.check()
    limits.spend(SPENT)
    with pytest.raises(LimitExceeded) as found:
        limits.check()
    assert found.value.kind == "chat_day"


def test_a_day_limit_on_money_includes_the_cost_of_extra_requests() -> None:
    limits = Limits(
        (
            UsageLimit(Measure.MONEY, 1.0, 0.75, kind="chat_day"),
            UsageLimit(Measure.TURNS, 3, 2, kind="user_day"),
        )
    )
    limits.spend(SPENT, 0.125)
    limits.check()
    limits.spend_extra(SPENT, 0.125)
    with pytest.raises(LimitExceeded, match="chat_day: 1 of at most 1"):
        limits.check()
    with pytest.raises(LimitExceeded, match="user_day: 3 of at most 3"):
        Limits((UsageLimit(Measure.TURNS, 3, 3, kind="user_day"),)).check()


@pytest.mark.parametrize(
    ("limit", "refusal"),
    [
        (UsageLimit(Measure.STEPS, 3, 2), ""),
        (UsageLimit(Measure.STEPS, 3, 3), "steps: 3 of at most 3"),
        (UsageLimit(Measure.TURNS, 3, 2, "user_day"), ""),
        (UsageLimit(Measure.TURNS, 3, 4, "user_day"), "user_day: 4 of at most 3"),
        (UsageLimit(Measure.MONEY, 0.5, 0.25, "bot_day"), ""),
        (UsageLimit(Measure.MONEY, 0.5, 0.5, "bot_day"), "bot_day: 0.5 of at most 0.5"),
        (UsageLimit(Measure.TOKENS, 100, 99), ""),
        (UsageLimit(Measure.TOKENS, 100, 100), "tokens: 100 of at most 100"),
        (UsageLimit(Measure.TOKENS, 100, 100, "chat_day"), "chat_day: 100 of at most 100"),
        (TimeLimit(10, lambda: 109.5, 100.0), ""),
        (TimeLimit(10, lambda: 110.0, 100.0), "seconds: 10 of at most 10"),
    ],
)
def test_a_limit_is_reached_when_all_of_it_is_used(limit: Limit, refusal: str) -> None:
    assert Limits([UsageLimit(Measure.TOKENS, 1000), limit]).refusal() == refusal
    if refusal:
        with pytest.raises(LimitExceeded) as caught:
            limit.check()
        error = caught.value
        assert refusal == f"{error.kind}: {error.value:g} of at most {error.limit:g}"
    else:
        limit.check()


def counted() -> tuple[list[Limit], Limits]:
    limits: list[Limit] = [
        UsageLimit(Measure.STEPS, 9),
        UsageLimit(Measure.TURNS, 9, 1, "user_day"),
        UsageLimit(Measure.MONEY, 9.0, 0.5, "bot_day"),
        UsageLimit(Measure.TOKENS, 900),
    ]
    return limits, Limits(limits)


def taken(limits: list[Limit]) -> list[float]:
    return [limit.taken for limit in limits]  # type: ignore[attr-defined]


def test_tokens_without_a_price_cost_nothing() -> None:
    money = UsageLimit(Measure.MONEY, 9.0, 0.5, "bot_day")
    money.spend(SPENT)
    assert money.taken == 0.5


def test_a_reply_counts_as_a_step_and_with_its_tokens_and_its_price() -> None:
    each, limits = counted()
    limits.spend(SPENT, 0.25)
    assert taken(each) == [1, 1, 0.75, 100]
    limits.spend(SPENT)
    assert taken(each) == [2, 1, 0.75, 200], "a figure that the reply does not give must count as 0"


def test_a_plugins_model_request_costs_money_and_is_not_a_step() -> None:
    each, limits = counted()
    limits.spend_extra(SPENT, 0.25)
    assert taken(each) == [0, 1, 0.75, 100]
    limits.spend_extra(SPENT)
    assert taken(each) == [0, 1, 0.75, 200]


def test_the_limits_of_a_turn_come_from_the_settings() -> None:
    clock = Clock()
    settings = TurnSettings(max_steps=3, max_tokens=1500, max_seconds=20.0)
    assert turn_limits(settings, clock) == (
        UsageLimit(Measure.STEPS, 3),
        UsageLimit(Measure.TOKENS, 1500),
        TimeLimit(20.0, clock, 100.0),
    )


def test_the_tokens_of_stored_usage_include_all_tokens_and_a_day_has_24_hours() -> None:
    used = StoredUsage(turns=1, steps=2, prompt_tokens=70, completion_tokens=30, cost=0.5)
    assert used.tokens == 100
    assert DAY_S == 24 * 60 * 60


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (Price(), 0.0),
        (Price(prompt=2.0, completion=8.0), 6.0),
        (Price(prompt=2.0, completion=8.0, cached=0.5), 5.4),
        (Price(cached=1.0), 0.4),
    ],
)
def test_the_cost_of_a_request_comes_from_its_prices(price: Price, cost: float) -> None:
    used = RequestUsage(prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=400_000)
    assert price.of(used) == pytest.approx(cost)
    assert price.of(RequestUsage(prompt_tokens=10, completion_tokens=0, cached_tokens=99)) >= 0


def test_an_extra_request_without_a_cost_costs_no_money() -> None:
    limit = UsageLimit(Measure.MONEY, 1.0)
    limit.spend(SPENT)
    limit.spend_extra(SPENT)
    assert limit.taken == 0
    assert limit.measure.value == "money"


def test_a_run_may_send_as_many_messages_as_its_limit() -> None:
    limit = RunSendLimit(SendRateSettings(sends_per_run=3))
    assert limit.take("run", 2) == ""
    assert "has sent 2 of 3 messages and this would be 2 more" in limit.take("run", 2)
    assert limit.take("run", 1) == "", "the refused messages were not counted"
    assert "has sent 3 of 3" in limit.take("run", 1)
    limit.give_back("run", 2)
    assert limit.take("run", 2) == "", "two messages were not sent after all"
    assert "has sent 3 of 3" in limit.take("run", 1)
    assert limit.take("", 100) == "", "a send without a run is not counted"


def test_the_counts_of_the_oldest_runs_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nekro_core.policy.limits._RUNS", 2)
    limit = RunSendLimit(SendRateSettings(sends_per_run=1))
    for run in ("a", "b"):
        assert limit.take(run, 1) == ""
        assert limit.take(run, 1) != "", "two runs are counted"
    assert limit.take("c", 1) == ""
    assert limit.take("b", 1) != ""
    assert limit.take("a", 1) == "", "the count of run a was dropped"
    assert limit.take("c", 1) != ""


def test_the_smallest_share_that_is_left_of_a_daily_quota_is_computed() -> None:
    limits = Limits([UsageLimit(Measure.TOKENS, 1000, 999), UsageLimit(Measure.STEPS, 10, 9)])
    assert limits.day_share_left == 1.0, "a limit of the turn does not count as a daily quota"
    limits.add(
        UsageLimit(Measure.TOKENS, 1000, 400, "chat_day"),
        UsageLimit(Measure.MONEY, 2.0, 1.5, "user_day"),
        UsageLimit(Measure.TURNS, 10, 10, "bot_day"),
    )
    assert limits.day_share_left == 0.25
    limits.spend(RequestUsage(prompt_tokens=500, completion_tokens=300), 0.1)
    assert limits.day_share_left == 0.0
