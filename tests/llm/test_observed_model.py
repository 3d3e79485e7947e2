"""Each request to a model is recorded with its outcome, its times, its tokens and its cost."""

import pytest

from nekro_core.llm.model import (
    ChatRequest,
    ModelProfile,
    Price,
    PriceSource,
    PromptMessage,
    QuotaExceeded,
    RequestUsage,
)
from nekro_core.llm.observed_model import ObservedModel
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel, ScriptedReply
from nekro_core.system.telemetry.telemetry import Telemetry

REQUEST = ChatRequest(messages=(PromptMessage.of("user", "How late is it?"),))
PROFILE = ModelProfile(
    name="clever", price=Price(prompt=2, completion=10, cached=1, source=PriceSource.OPERATOR)
)


async def ask(telemetry: Telemetry, *replies: ScriptedReply, parts: int = 1000) -> None:
    """Ask a model that gives these replies, and read at most ``parts`` parts of its reply."""
    model = ObservedModel(ScriptedModel([*replies], profile=PROFILE), telemetry)
    async with model.stream(REQUEST) as deltas:
        async for _ in deltas:
            parts -= 1
            if not parts:
                break


async def test_a_reply_counts_its_tokens_and_its_cost() -> None:
    telemetry = Telemetry()
    usage = RequestUsage(prompt_tokens=1000, cached_tokens=400, completion_tokens=50)
    await ask(telemetry, ScriptedAnswer(chunks=["It is ", "late."], usage=usage))
    metrics = telemetry.metrics
    assert metrics.model_requests.values == {("clever", "ok"): 1}
    assert metrics.tokens.values == {
        ("clever", "prompt"): 600,
        ("clever", "cached"): 400,
        ("clever", "completion"): 50,
    }
    cost = (600 * 2 + 400 * 1 + 50 * 10) / 1_000_000
    assert metrics.money.values == {("clever", "operator"): pytest.approx(cost)}
    assert sum(metrics.model_first_token.values[("clever",)].counts) == 1
    assert sum(metrics.model_seconds.values[("clever",)].counts) == 1


async def test_a_request_that_fails_counts_by_its_reason_and_costs_nothing() -> None:
    telemetry = Telemetry()
    with pytest.raises(QuotaExceeded):
        await ask(telemetry, QuotaExceeded("too many requests"))
    metrics = telemetry.metrics
    assert metrics.model_requests.values == {("clever", "quota"): 1}
    assert metrics.tokens.values == metrics.money.values == {}
    assert metrics.model_first_token.values == {}


async def test_a_reply_that_the_bot_cuts_off_is_paid_for() -> None:
    telemetry = Telemetry()
    await ask(telemetry, "a reply with many more words than are read", parts=1)
    metrics = telemetry.metrics
    assert metrics.model_requests.values == {("clever", "cut"): 1}
    assert metrics.tokens.values[("clever", "completion")] > 0
