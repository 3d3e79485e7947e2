"""After a crash within a turn, the next process knows what the turn did, and people get one
answer."""

import random
import tempfile
import time
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Text
from nekro_core.delivery.adapter import PlatformMessage
from nekro_core.llm.model import ChatRequest
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy.settings import TriggerSettings
from tests.agent.bot import LIN, SOON_SETTLED, fence, running_bot, text_of
from tests.agent.conftest import BoxCache
from tests.delivery.fakes import message
from tests.delivery.outbound.killed_processes import watched
from tests.delivery.outbound.test_unknown_deliveries import AskedAdapter, Platform


async def book_a_table(_ctx: AgentCtx, people: int) -> str:
    """Book a table.

    Args:
        people: The number of people.
    """
    if people > 2:
        await anyio.sleep_forever()
    return f"table for {people}"


async def test_the_model_is_told_which_calls_were_made_before_a_crash(
    folder: Path, boxes: BoxCache, tmp_path: Path
) -> None:
    code = "print(book_a_table(people=2))\nbook_a_table(people=7)"
    tools = [book_a_table]
    async with running_bot(folder, boxes, ScriptedModel([fence(code)]), tools=tools) as bot:
        async with watched(folder, lambda: 0) as moments:
            await bot.say("book for two, then for seven")
            with anyio.fail_after(30):
                while True:
                    (turn,) = await bot.turns() or [None]
                    runs = await bot.store.runs.of_turn(turn.turn_id) if turn else []
                    calls = await bot.store.runs.calls(runs[0].run_id) if runs else []
                    if len(calls) == 2:
                        break
                    await anyio.sleep(0.01)
        assert [call.outcome for call in calls] == ["ok", ""]
    # Take the files as a kill leaves them, not as the regular end of the bot left them.
    left = moments[-1].put(tmp_path / "killed")
    model = ScriptedModel([fence("send_channel_message('both are booked')")])
    async with running_bot(left, boxes, model, tools=tools, recover=True) as bot:
        with anyio.fail_after(30):
            while not bot.said():
                await anyio.sleep(0.01)
        await bot.settled()
        told = bot.prompt()
        assert '+ it called "book_a_table" with' in told
        assert '{\\"people\\": 2}": "ok"' in told
        assert '{\\"people\\": 7}": unknown whether it was done' in told
        assert "[note] The restart cut it off." in told
        turn = await bot.last_turn()
        runs = await bot.store.runs.of_turn(turn.turn_id)
        assert [run.stop for run in runs] == ["cut_off", "finished"]


def one_answer(request: ChatRequest) -> str:
    """A model that answers each question of its prompt for which the prompt shows no answer."""
    prompt = text_of(request, from_message=1)
    todo = [word for word in ("one", "two") if f"ask {word}" in prompt]
    done = [word for word in todo if f"answer {word}" in prompt]
    lines = [f"send_channel_message('answer {word}')" for word in todo if word not in done]
    return fence("\n".join(lines) or "pass")


async def answered(folder: Path, boxes: BoxCache, shows: list[PlatformMessage]) -> Platform:
    """Start the next process. Return the platform when the process has nothing more to do."""
    platform = Platform(shows=[*shows])
    model = ScriptedModel(one_answer)
    adapter = AskedAdapter(platform)
    async with running_bot(
        folder, boxes, model, adapter=adapter, delivery=SOON_SETTLED, recover=True
    ) as bot:
        with anyio.fail_after(30):
            while True:
                idle = not bot.sessions.at_work(LIN)
                undecided = await bot.store.deliveries.undecided(since=0)
                if idle and not undecided and not any(t.running for t in await bot.turns()):
                    break
                await anyio.sleep(0.02)
    return platform


@pytest.mark.parametrize("tries", [2, pytest.param(12, marks=[pytest.mark.long, pytest.mark.slow])])
async def test_a_kill_at_any_moment_of_a_turn_leads_to_one_answer(
    folder: Path, boxes: BoxCache, tmp_path: Path, tries: int
) -> None:
    platform = Platform()
    model = ScriptedModel(one_answer)
    adapter = AskedAdapter(platform)
    async with running_bot(folder, boxes, model, adapter=adapter) as bot:
        first = platform.show("hello", own=False)
        await bot.ask("hello", message_id=first)
        await bot.outbox.send(LIN, (Text("welcome"),))
        async with watched(folder, lambda: len(platform.shows)) as moments:
            await bot.ask("ask one", message_id=platform.show("ask one", own=False))
            await bot.ask("ask two", message_id=platform.show("ask two", own=False))
    chance = random.Random(tries)
    for number, moment in enumerate(
        sorted(chance.sample(range(len(moments)), min(tries, len(moments))))
    ):
        left = moments[moment]
        stored = left.messages()
        asked = [text for text in ("one", "two") if f"ask {text}" in stored]
        with tempfile.TemporaryDirectory(dir=tmp_path) as again:
            saw = await answered(
                left.put(Path(again) / str(number)), boxes, platform.shows[: left.seen]
            )
        texts = [text for text in saw.texts() if text.startswith("answer")]
        assert texts == [f"answer {word}" for word in asked], (moment, texts)


async def test_a_question_after_a_turn_that_is_given_up_is_answered(
    folder: Path, boxes: BoxCache
) -> None:
    # This bot waits 60 seconds for more text, so that it starts no turn itself.
    waits = TriggerSettings(debounce_s=60)
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=waits) as bot:
        asked = await bot.accept(message(LIN, "ask one", message_id="1", time=time.time()))
        assert asked is not None
        turn = await bot.store.turns.begin(LIN, trigger_seq=asked.seq, through_seq=asked.seq)
        for _ in range(19):
            await bot.store.turns.resume(turn.turn_id)
        await bot.accept(message(LIN, "ask two", message_id="2", time=time.time()))
    # After these kills, the next process closes the turn and answers the later message.
    async with running_bot(folder, boxes, ScriptedModel(one_answer), recover=True) as bot:
        with anyio.fail_after(30):
            while len(bot.said()) < 2:
                await anyio.sleep(0.01)
        await bot.settled()
        assert [turn.stop for turn in await bot.turns()] == ["given_up", "finished"]
        assert bot.said()[0].startswith("I could not get this to work")
