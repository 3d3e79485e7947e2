"""An operator lists turns, reads what happened in a turn and what its prompt was, and repeats a
turn."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from nekro_core.agent.replay.replay import TurnReplayer
from nekro_core.agent.shown.viewer import PromptViewer
from nekro_core.llm.model import RequestRejected
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.errors import InvalidParameters, NoSuchItem, NotAllowed
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.operator.turns import ShownPromptView, TurnDetails, TurnReplayView, Turns
from tests.agent.bot import GROUP, LIN, Bot, answer, fence, running_bot
from tests.agent.conftest import BoxCache, boxes

__all__ = ["boxes"]

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)

pytestmark = pytest.mark.jail


@asynccontextmanager
async def operated(
    folder: Path, boxes: BoxCache, model: ScriptedModel, **options: Any
) -> AsyncIterator[tuple[Bot, Turns]]:
    async with running_bot(folder, boxes, model, **options) as bot:
        turns = Turns(
            AuditLog(bot.store.audit),
            bot.store,
            PromptViewer(bot.store, bot.services.pictures),
            TurnReplayer(bot.services),
            bot.services.policies.model_named,
        )
        yield bot, turns


async def test_turns_are_listed_newest_first_and_filtered(tmp_path: Path, boxes: BoxCache) -> None:
    refused = RequestRejected("no such model")
    replies = [answer("a"), answer("b"), refused, fence("1/0"), answer("c")]
    async with operated(tmp_path, boxes, ScriptedModel(replies)) as (bot, turns):
        await bot.ask("one", user="lin")
        await bot.ask("two", GROUP, to_bot=True, user="ann")
        middle = time.time()
        await bot.ask("three", user="lin")
        await bot.ask("four", user="lin")
        listed = await turns.list(VERA)
        assert [each.asked for each in listed] == ["four", "three", "two", "one"]
        assert [each.failed for each in listed] == [True, True, False, False]
        assert [each.stop for each in listed] == ["finished", "model_rejected", *["finished"] * 2]

        async def asked(**wanted: Any) -> list[str]:
            return [each.asked for each in await turns.list(VERA, **wanted)]

        assert await asked(chat_key=GROUP) == ["two"]
        assert await asked(user_id="lin", failed=False) == ["one"]
        assert await asked(stop="model_rejected") == ["three"]
        assert await asked(model="scripted") == ["four", "three", "two", "one"]
        assert await asked(since=middle) == ["four", "three"]
        assert await asked(until=middle) == ["two", "one"]
        assert await asked(since=time.time() + 9) == []
        assert await asked(before=listed[1].turn_id, limit=1) == ["two"]
        choices = await turns.choices(VERA)
        assert choices.stops == ["finished", "model_rejected"]
        assert choices.models == ["scripted"]
        with pytest.raises(InvalidParameters, match="limit"):
            await turns.list(VERA, limit=100_000)


async def test_a_turn_and_its_prompt_are_read_and_can_be_written_as_json(
    tmp_path: Path, boxes: BoxCache
) -> None:
    async with operated(tmp_path, boxes, ScriptedModel([answer("a")])) as (bot, turns):
        await bot.ask("hello")
        (listed,) = await turns.list(VERA)
        details = await turns.one(VERA, turn_id=listed.turn_id)
        prompt = await turns.shown(VERA, turn_id=listed.turn_id)
        assert details.runs[0].calls[0].name == "send_channel_message"
        assert [each.text for each in details.runs[0].sends] == ["a"]
        assert prompt.exact
        assert {"rules", "history", "task"} <= {each.kind for each in prompt.sections}
        json.dumps(TypeAdapter(TurnDetails).dump_python(details, mode="json"))
        json.dumps(TypeAdapter(ShownPromptView).dump_python(prompt, mode="json"))
        with pytest.raises(NoSuchItem, match="no turn 99"):
            await turns.one(VERA, turn_id=99)
        with pytest.raises(NoSuchItem, match="step 5 of turn"):
            await turns.shown(VERA, turn_id=listed.turn_id, step=5)


async def test_an_operator_repeats_a_turn_with_another_model(
    tmp_path: Path, boxes: BoxCache
) -> None:
    other = ScriptedModel(["never mind"])
    named = {"small": other}
    async with operated(tmp_path, boxes, ScriptedModel([answer("a")]), models=named.get) as (
        bot,
        turns,
    ):
        await bot.ask("hello", LIN)
        (listed,) = await turns.list(VERA)
        done = await turns.replay(OTTO, turn_id=listed.turn_id, model="small")
        assert done.result.sends == ["never mind"]
        assert done.result.original.turn.turn_id == listed.turn_id
        assert bot.said() == ["a"]
        json.dumps(TypeAdapter(TurnReplayView).dump_python(done.result, mode="json"))
        with pytest.raises(NoSuchItem, match="no model group 'huge'"):
            await turns.replay(OTTO, turn_id=listed.turn_id, model="huge")
        with pytest.raises(NotAllowed, match="needs the role operator"):
            await turns.replay(VERA, turn_id=listed.turn_id)


async def test_a_text_without_code_belongs_to_the_step_that_wrote_it(
    tmp_path: Path, boxes: BoxCache
) -> None:
    replies = [fence("print(1)"), "It is one.", fence("print(2)"), "It is two."]
    async with operated(tmp_path, boxes, ScriptedModel(replies)) as (bot, turns):
        assert await bot.ask("what is it?", user="lin") == ["It is one."]
        found = await turns.one(VERA, turn_id=1)
        assert [(run.step, len(run.sends)) for run in found.runs] == [(0, 0), (1, 1)]
        replay = (await turns.replay(OTTO, turn_id=1)).result.replayed
        assert [(run.step, len(run.sends)) for run in replay.runs] == [(0, 0), (1, 1)]


async def test_a_notice_about_a_failed_request_belongs_to_its_step(
    tmp_path: Path, boxes: BoxCache
) -> None:
    replies = [fence("print(1)"), RequestRejected("the key is not valid")]
    async with operated(tmp_path, boxes, ScriptedModel(replies)) as (bot, turns):
        await bot.ask("what is it?", user="lin")
        found = await turns.one(VERA, turn_id=1)
        assert [(run.step, len(run.sends)) for run in found.runs] == [(0, 0), (1, 1)]
        assert found.steps[1].error


async def test_a_turn_says_why_the_bot_answered(tmp_path: Path, boxes: BoxCache) -> None:
    async with operated(tmp_path, boxes, ScriptedModel([answer("hi"), answer("hi")])) as (
        bot,
        turns,
    ):
        await bot.ask("hello", user="lin")
        found = await turns.one(VERA, turn_id=1)
        assert (found.why, found.why_detail) == ("private", "")
        await bot.ask("Nekro, hello", GROUP, user="ann")
        found = await turns.one(VERA, turn_id=2)
        assert (found.why, found.why_detail) == ("named", "Nekro")
