"""A turn with a chain of models: if a model fails, the next one answers, and the operator sees
why."""

from pathlib import Path

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.model import (
    KeyRejected,
    ModelProfile,
    ModelUnreachable,
    Price,
    PriceSource,
    QuotaExceeded,
    RequestUsage,
)
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.policy.settings import TurnSettings
from nekro_core.store.turn_trace import StepTrace
from tests.agent.bot import Bot, running_bot, text_of
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE

PRICE = Price(prompt=1000.0, completion=1000.0, source=PriceSource.OPERATOR)


def profile(name: str, **more) -> ModelProfile:
    return ModelProfile(name=name, vision=True, functions=True, price=PRICE, **more)


def chains_of(settings: RoleSettings | None = None, **models: ScriptedModel) -> ModelChains:
    return ModelChains(settings or RoleSettings(chat=tuple(models)), models.get)


def chat_model(chains: ModelChains):
    model = chains.of_turns()
    assert model is not None
    return model


def budget(money: float) -> AgentSettings:
    return AgentSettings(turn=TurnSettings(chat_money_a_day=money))


async def steps_of(bot: Bot) -> tuple[StepTrace, ...]:
    turn = await bot.last_turn()
    trace = await bot.store.turn_traces.get(turn.turn_id)
    assert trace is not None
    return trace.steps


@pytest.mark.parametrize("mode", ["code", "tools"])
async def test_the_next_model_answers_and_the_trace_says_why(
    folder: Path, boxes: BoxCache, mode: str
) -> None:
    usage = RequestUsage(prompt_tokens=900, completion_tokens=100)
    first = ScriptedModel([KeyRejected("bad key")], profile=profile("first-1"))
    second = ScriptedModel(
        [ScriptedAnswer(chunks=["Good morning."], usage=usage)], profile=profile("second-2")
    )
    chain = chat_model(chains_of(first=first, second=second))
    settings = TOOLS_MODE if mode == "tools" else None
    async with running_bot(folder, boxes, chain, settings=settings) as bot:
        assert await bot.ask("hello") == ["Good morning."]
        (step,) = await steps_of(bot)
        assert step.answered == "second"
        (passed,) = step.passed
        assert (passed.name, passed.reason, passed.error) == ("first", "key", "bad key")
        assert step.step is not None
        assert (step.step.model, step.step.cost) == ("second-2", 1.0)


async def test_if_all_models_fail_the_chat_gets_one_notice_with_the_reasons(
    folder: Path, boxes: BoxCache
) -> None:
    first = ScriptedModel([KeyRejected("bad key")], profile=profile("first-1"))
    second = ScriptedModel([QuotaExceeded("slow down")], profile=profile("second-2"))
    chain = chat_model(chains_of(first=first, second=second))
    async with running_bot(folder, boxes, chain) as bot:
        (notice,) = await bot.ask("hello")
        reasons = "a key is not accepted; the limit of requests is reached"
        assert notice == f"None of my models answers: {reasons}. Please try again later."
        assert (await bot.last_turn()).stop == "model_chain"
        (step,) = await steps_of(bot)
        assert (step.answered, step.step) == ("", None)
        assert [(each.name, each.reason) for each in step.passed] == [
            ("first", "key"),
            ("second", "quota"),
        ]


async def test_a_small_model_that_stands_in_gets_a_short_prompt_of_its_own(
    folder: Path, boxes: BoxCache
) -> None:
    small = ModelProfile(name="small", grammar=True, prefers_examples=True, context_tokens=4096)
    first = ScriptedModel([ModelUnreachable("gone")], profile=profile("first-1"))
    second = ScriptedModel(["send_channel_message('Hello there.')"], profile=small)
    chain = chat_model(
        chains_of(
            RoleSettings(chat=("first", "second"), allow_dearer=True), first=first, second=second
        )
    )
    async with running_bot(folder, boxes, chain) as bot:
        assert await bot.ask("hello") == ["Hello there."]
        (step,) = await steps_of(bot)
        assert step.has_prompt
    (long,), (short,) = first.requests, second.requests
    assert short.grammar
    assert not long.grammar
    assert len(text_of(short)) < len(text_of(long))


async def test_an_empty_reply_goes_to_the_next_model_unless_people_have_an_answer(
    folder: Path, boxes: BoxCache
) -> None:
    first = ScriptedModel(
        ["", "```python\nsend_channel_message('Well.')\nprint('more')\n```", ""],
        profile=profile("first-1"),
    )
    second = ScriptedModel(["From the second."], profile=profile("second-2"))
    chain = chat_model(chains_of(first=first, second=second))
    async with running_bot(folder, boxes, chain) as bot:
        assert await bot.ask("hello") == ["From the second."]
        assert await bot.ask("again") == ["Well."]
    assert len(second.requests) == 1


async def test_a_cheaper_model_answers_when_little_of_the_daily_budget_is_left(
    folder: Path, boxes: BoxCache
) -> None:
    usage = RequestUsage(prompt_tokens=850, completion_tokens=0)
    usual = ScriptedModel(
        [ScriptedAnswer(chunks=["From the usual one."], usage=usage)] * 2,
        profile=profile("usual-1"),
    )
    cheap = ScriptedModel(["From the cheap one."], profile=profile("cheap-2"))
    models = {"usual": usual, "cheap": cheap}
    chains = ModelChains(RoleSettings(chat=("usual",), saving=("cheap",)), models.get)
    async with running_bot(
        folder, boxes, chat_model(chains), saving=chains.saving, settings=budget(1.0)
    ) as bot:
        assert await bot.ask("one") == ["From the usual one."]
        assert await bot.ask("two") == ["From the cheap one."]
    assert len(usual.requests) == 1
