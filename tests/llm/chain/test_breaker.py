"""A model that failed is not asked for a while (the cool-down). After that, one request tries
it."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nekro_core.llm.breaker import BreakerState, CircuitBreaker, Passage
from nekro_core.llm.model import PassReason
from nekro_core.llm.role_settings import RoleSettings

SETTINGS = RoleSettings(cooldown_s=30, longest_cooldown_s=600)
HARD = (PassReason.UNREACHABLE, PassReason.QUOTA, PassReason.KEY)
SOFT = (PassReason.EMPTY, PassReason.REFUSED, PassReason.REJECTED, PassReason.BROKEN)


@dataclass
class Time:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def failed(breaker: CircuitBreaker, reason: PassReason, retry_after_s: float | None = None) -> None:
    passage = breaker.enter()
    assert passage is not None
    breaker.fails(passage, reason, "it failed", retry_after_s)
    breaker.leave(passage)


def answered(breaker: CircuitBreaker) -> None:
    passage = breaker.enter()
    assert passage is not None
    breaker.works(passage)
    breaker.finished()
    breaker.leave(passage)


def test_an_unreachable_model_cools_down_and_is_then_tried_by_one_request() -> None:
    time = Time()
    breaker = CircuitBreaker(SETTINGS, time)
    failed(breaker, PassReason.UNREACHABLE)
    assert breaker.state is BreakerState.OPEN
    assert breaker.enter() is None
    time.now += 30
    assert breaker.state is BreakerState.HALF_OPEN
    probe = breaker.enter()
    assert probe is not None
    assert breaker.enter() is None
    breaker.works(probe)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.enter() is not None


def test_each_failed_try_doubles_the_cool_down_up_to_its_limit() -> None:
    time = Time()
    breaker = CircuitBreaker(SETTINGS, time)
    waits = []
    for _ in range(7):
        failed(breaker, PassReason.UNREACHABLE)
        waits.append(breaker.remaining_s)
        time.now += breaker.remaining_s
    assert waits == [30, 60, 120, 240, 480, 600, 600]


def test_an_answer_makes_the_next_cool_down_short_again() -> None:
    time = Time()
    breaker = CircuitBreaker(SETTINGS, time)
    for _ in range(3):
        failed(breaker, PassReason.UNREACHABLE)
        time.now += breaker.remaining_s
    answered(breaker)
    failed(breaker, PassReason.UNREACHABLE)
    assert breaker.remaining_s == 30


@pytest.mark.parametrize(("asked", "wait"), [(7.0, 7.0), (0.0, 1.0), (86_400.0, 3600.0)])
def test_the_wait_that_a_provider_asks_for_is_kept_within_limits(asked: float, wait: float) -> None:
    breaker = CircuitBreaker(SETTINGS, Time())
    failed(breaker, PassReason.QUOTA, asked)
    assert breaker.remaining_s == wait


def test_a_rejected_key_gives_the_longest_cool_down_at_once() -> None:
    breaker = CircuitBreaker(SETTINGS, Time())
    failed(breaker, PassReason.KEY)
    assert breaker.remaining_s == 600


@pytest.mark.parametrize("reason", SOFT)
def test_a_failure_that_the_request_may_have_caused_counts_only_after_three_in_a_row(
    reason: PassReason,
) -> None:
    breaker = CircuitBreaker(SETTINGS, Time())
    failed(breaker, reason)
    failed(breaker, reason)
    answered(breaker)
    failed(breaker, reason)
    failed(breaker, reason)
    assert breaker.state is BreakerState.CLOSED
    failed(breaker, reason)
    assert breaker.state is BreakerState.OPEN


def test_a_model_that_is_being_downloaded_does_not_cool_down() -> None:
    breaker = CircuitBreaker(SETTINGS, Time())
    failed(breaker, PassReason.NOT_READY)
    assert breaker.state is BreakerState.CLOSED


def test_after_a_cancelled_try_the_next_request_may_try() -> None:
    time = Time()
    breaker = CircuitBreaker(SETTINGS, time)
    failed(breaker, PassReason.UNREACHABLE)
    time.now += 30
    probe = breaker.enter()
    assert probe is not None
    breaker.leave(probe)
    assert breaker.enter() is not None


def test_requests_that_fail_at_the_same_time_begin_only_one_cool_down() -> None:
    breaker = CircuitBreaker(SETTINGS, Time())
    together = [breaker.enter() for _ in range(5)]
    for passage in together:
        assert passage is not None
        breaker.fails(passage, PassReason.UNREACHABLE)
        breaker.leave(passage)
    assert breaker.remaining_s == 30


class AnyOrder(RuleBasedStateMachine):
    """Requests begin, answer, fail and are cancelled in any order, while the clock moves."""

    def __init__(self) -> None:
        super().__init__()
        self.time = Time()
        self.breaker = CircuitBreaker(SETTINGS, self.time)
        self.running: list[Passage] = []

    def _one(self, data: st.DataObject) -> Passage:
        return self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))

    @rule(forced=st.sampled_from([False, False, False, True]))
    def begin(self, forced: bool) -> None:
        state = self.breaker.state
        passage = self.breaker.enter(forced=forced)
        if passage is None:
            assert state is not BreakerState.CLOSED
            assert not forced
        else:
            assert passage.probe == (state is not BreakerState.CLOSED)
            self.running.append(passage)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        passage = self._one(data)
        self.breaker.works(passage)
        self.breaker.finished()
        self.breaker.leave(passage)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), reason=st.sampled_from(PassReason), after=st.none() | st.floats(0, 1e5))
    def fail(self, data: st.DataObject, reason: PassReason, after: float | None) -> None:
        passage = self._one(data)
        current = passage.period == self.breaker.cooldowns
        before = self.breaker.remaining_s
        self.breaker.fails(passage, reason, "", after)
        self.breaker.leave(passage)
        if current and reason in HARD:
            assert self.breaker.state is BreakerState.OPEN
        if not current:
            assert self.breaker.remaining_s == before

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.breaker.leave(self._one(data))

    @rule(seconds=st.floats(0, 700))
    def wait(self, seconds: float) -> None:
        self.time.now += seconds

    @invariant()
    def a_cool_down_always_ends(self) -> None:
        assert self.breaker.remaining_s < 3600.001

    @invariant()
    def only_a_try_that_runs_keeps_others_from_a_model_that_has_cooled_down(self) -> None:
        if self.breaker.state is BreakerState.HALF_OPEN and not self.breaker.admits:
            assert any(each.probe for each in self.running)
        if self.breaker.state is BreakerState.CLOSED:
            assert self.breaker.admits

    @invariant()
    def a_reason_is_shown_exactly_while_the_breaker_is_not_closed(self) -> None:
        assert (self.breaker.reason is None) == (self.breaker.state is BreakerState.CLOSED)


TestAnyOrder = AnyOrder.TestCase
