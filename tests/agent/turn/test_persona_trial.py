"""A persona is tried on a stored conversation: the model is asked once, and nothing is sent or
stored."""

from pathlib import Path

import pytest

from nekro_core.agent.turn.persona_trial import NothingToAnswer, try_persona
from nekro_core.llm.model import ModelUnreachable
from nekro_core.llm.scripted import ScriptedModel
from tests.agent.bot import LIN, answer, running_bot, text_of
from tests.agent.conftest import BoxCache


async def test_a_trial_answers_the_last_question_without_effects(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("I am well"), "Meow, I am well!"])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("how are you?") == ["I am well"]
        before = await bot.store.messages.newest(LIN, 50)
        turns = await bot.turns()
        trial = await try_persona(bot.services, LIN, "You are Mei, a cat.")
        assert trial.reply == "Meow, I am well!"
        assert trial.question.seq == before[0].seq
        assert trial.usage is not None
        request = model.requests[-1]
        assert "You are Mei, a cat." in text_of(request)
        assert "how are you?" in text_of(request)
        # this message comes after the question
        assert "I am well" not in text_of(request, from_message=1)
        assert request.functions == ()
        assert bot.said() == ["I am well"]
        assert await bot.store.messages.newest(LIN, 50) == before
        assert await bot.turns() == turns


async def test_a_trial_can_ask_another_model(folder: Path, boxes: BoxCache) -> None:
    other = ScriptedModel(["from another model"])
    async with running_bot(folder, boxes, ScriptedModel([answer("yes")])) as bot:
        await bot.ask("how are you?")
        trial = await try_persona(bot.services, LIN, "You are Mei.", model=other, last=5)
    assert trial.reply == "from another model"


async def test_a_trial_needs_a_message_to_answer(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        with pytest.raises(NothingToAnswer, match="nobody has written"):
            await try_persona(bot.services, LIN, "You are Mei.")


async def test_a_failure_of_the_model_is_reported(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("yes"), ModelUnreachable("the model sleeps")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("how are you?")
        with pytest.raises(ModelUnreachable, match="sleeps"):
            await try_persona(bot.services, LIN, "You are Mei.")
