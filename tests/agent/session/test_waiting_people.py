"""Several people ask at once. Each gets an answer, and a crash loses no question."""

import random
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import Text
from nekro_core.llm.model import ChatRequest
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply
from nekro_core.policy.participation import Participation, ParticipationSettings
from nekro_core.policy.settings import TriggerSettings, TurnSettings
from tests.agent.bot import GROUP, LONG, Bot, answer, fence, running_bot, text_of, until
from tests.agent.conftest import BoxCache
from tests.agent.session.test_one_requester_per_turn import Wishes, asked_in, quiet
from tests.delivery.outbound.killed_processes import watched
from tests.delivery.outbound.test_unknown_deliveries import AskedAdapter, Platform


@pytest.mark.parametrize(
    "seed", [1, 2, 3, pytest.param(4, marks=[pytest.mark.long, pytest.mark.slow])]
)
async def test_each_person_is_answered_once_in_turns_of_their_own(
    folder: Path, boxes: BoxCache, seed: int
) -> None:
    chance, wishes = random.Random(seed), Wishes()
    people = [f"1000{number}" for number in range(4)]

    def script(request: ChatRequest) -> ScriptedReply:
        return slow(request) if chance.random() < 0.5 else wishes.reply(request)

    async def slow(request: ChatRequest) -> AsyncIterator[str]:
        calls = [f"carry_out({text!r})" for text in asked_in(request)]
        yield "```python\n" + "\n".join([*calls, "pass"]) + "\n"
        await anyio.sleep(0.01 * chance.random())
        yield "send_channel_message('done')\n```"

    model, tools = ScriptedModel(script), [wishes.carry_out]
    trigger = TriggerSettings(
        debounce_s=0.01,
        burst_turns=0,
        hour_turns=0,
        participation=ParticipationSettings(mode=Participation.MENTIONED),
    )
    async with running_bot(folder, boxes, model, tools=tools, trigger=trigger) as bot:
        asked: list[tuple[str, str]] = []
        for number in range(40):
            user, to_bot = chance.choice(people), chance.random() < 0.7
            text = f"wish{number}"
            await bot.say(text, GROUP, user=user, to_bot=to_bot)
            if to_bot:
                asked.append((user, text))
            await anyio.sleep(chance.choice([0, 0, 0.02]))
        with anyio.move_on_after(20):
            while len(wishes.seen) < len(asked):
                await anyio.sleep(0.01)
        await quiet(bot)
        assert sorted(wishes.seen) == sorted(asked)
        for user in people:
            theirs = [wish for wish in wishes.seen if wish[0] == user]
            assert theirs == [wish for wish in asked if wish[0] == user], (
                "the questions of one person are answered in order"
            )
        left = [each for chat in await bot.store.turns.unanswered(since=0) for each in chat.records]
        assert not any(record.to_bot for record in left)


async def test_a_person_who_asks_again_and_again_does_not_starve_others(
    folder: Path, boxes: BoxCache
) -> None:
    wishes = Wishes()

    async def again(request: ChatRequest) -> AsyncIterator[str]:
        if "carry_out('please')" not in str(wishes.seen):
            await bot.say(f"more {len(model.requests)}", GROUP, user="mei", to_bot=True)
        reply = wishes.reply(request)
        assert isinstance(reply, str)
        yield reply

    model = ScriptedModel(
        lambda request: again(request) if len(model.requests) < 6 else answer(".")
    )
    tools = [wishes.carry_out]
    queue = AgentSettings(turn=TurnSettings(new_line="queue"))
    async with running_bot(
        folder, boxes, model, tools=tools, trigger=LONG, settings=queue
    ) as running:
        bot = running
        await bot.say("more 0", GROUP, user="mei", to_bot=True)
        await bot.say("please", GROUP, user="ken", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(wishes.seen) >= 2)
        assert ("ken", "please") in wishes.seen[:2], "his question came before her later ones"


# --- a crash --------------------------------------------------------------------------------------


def _one_answer_each(request: ChatRequest) -> str:
    """Return code that sends "answer TEXT" for each message marked NEW whose answer the prompt does
    not show."""
    prompt = text_of(request, from_message=1)
    todo = [text for text in asked_in(request) if f"answer {text}" not in prompt]
    return fence("\n".join(f"send_channel_message('answer {text}')" for text in todo) or "pass")


async def _after_a_kill(folder: Path, boxes: BoxCache, platform: Platform) -> tuple[list[str], Any]:
    """Start the next process and wait until it has nothing more to do. Returns the messages that
    people then see, and a pair for each run: the person whom its turn answered, and the code of the
    run."""
    model = ScriptedModel(_one_answer_each)
    adapter = AskedAdapter(platform)
    async with running_bot(folder, boxes, model, adapter=adapter, recover=True) as bot:
        with anyio.fail_after(30):
            while True:
                session = bot.sessions._sessions.get(GROUP)
                idle = session is None or session.idle
                undecided = await bot.store.deliveries.undecided(since=0)
                running = any(turn.running for turn in await bot.turns(GROUP))
                if idle and not undecided and not running:
                    break
                await anyio.sleep(0.02)
        turns = [
            (turn.user_id, run.code)
            for turn in await bot.turns(GROUP)
            for run in await bot.store.runs.of_turn(turn.turn_id)
        ]
    return platform.texts(), turns


@pytest.mark.parametrize("tries", [4, pytest.param(30, marks=[pytest.mark.long, pytest.mark.slow])])
async def test_a_kill_at_any_moment_loses_no_question(
    folder: Path, boxes: BoxCache, tmp_path: Path, tries: int
) -> None:
    platform = Platform()
    model = ScriptedModel(_one_answer_each)
    trigger = TriggerSettings(debounce_s=0)
    asks = [("99999", "one"), ("10001", "two"), ("20002", "three"), ("99999", "four")]
    async with running_bot(
        folder, boxes, model, adapter=AskedAdapter(platform), trigger=trigger
    ) as bot:
        await bot.outbox.send(GROUP, (Text("welcome"),))
        async with watched(folder, lambda: len(platform.shows)) as moments:
            for user, text in asks:
                shown = platform.show(text, own=False)
                await bot.say(text, GROUP, user=user, to_bot=True, message_id=shown)
            await until(lambda: len(platform.texts()) == 9)
            await quiet(bot)
    chance = random.Random(tries)
    for moment in sorted(chance.sample(range(len(moments)), min(tries, len(moments)))):
        left = moments[moment]
        stored = left.messages()
        asked = {text: user for user, text in asks if f'"{text}"' in stored}
        with tempfile.TemporaryDirectory(dir=tmp_path) as again:
            next_platform = Platform(shows=[*platform.shows[: left.seen]])
            saw, turns = await _after_a_kill(left.put(Path(again) / "left"), boxes, next_platform)
        answers = [text for text in saw if text.startswith("answer")]
        assert sorted(answers) == sorted(f"answer {text}" for text in asked), (moment, answers)
        for user, code in turns:
            for text in re.findall(r"answer (\w+)", code):
                assert asked[text] == user, (moment, turns)


async def _stuck() -> AsyncIterator[str]:
    await anyio.sleep_forever()
    yield ""


@asynccontextmanager
async def _cut_off(folder: Path, boxes: BoxCache) -> AsyncIterator[Bot]:
    """A bot in the middle of a turn that does not end, while another person's question waits."""
    async with running_bot(folder, boxes, ScriptedModel([_stuck()]), trigger=LONG) as bot:
        await bot.say("hers", GROUP, user="99999", to_bot=True)
        await bot.say("his", GROUP, user="10001", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(bot.model.requests) == 1)
        while not await bot.turns(GROUP):
            await anyio.sleep(0.005)
        yield bot


async def test_a_resumed_turn_answers_the_person_who_asked(folder: Path, boxes: BoxCache) -> None:
    wishes = Wishes()

    async with _cut_off(folder, boxes) as bot:
        await bot.say("hers too", GROUP, user="99999", to_bot=True)
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(folder, boxes, model, tools=tools, recover=True) as bot:
        await until(lambda: len(wishes.seen) == 3)
        await quiet(bot)
        assert wishes.seen == [("99999", "hers"), ("99999", "hers too"), ("10001", "his")]
        assert [(turn.user_id, turn.attempts) for turn in await bot.turns(GROUP)] == [
            ("99999", 2),
            ("10001", 1),
        ]
        assert " LATER\n> his" in bot.prompt(0)


async def test_giving_up_a_turn_loses_no_other_persons_question(
    folder: Path, boxes: BoxCache
) -> None:
    wishes = Wishes()

    async with _cut_off(folder, boxes) as bot:
        turn = await bot.last_turn(GROUP)
        await bot.store.turns.seen(turn.turn_id, turn.through_seq + 100)
        for _ in range(19):
            await bot.store.turns.resume(turn.turn_id)
    # The first start gives the turn up. The second start simulates a crash right after the first
    # one.
    for _ in range(2):
        model = ScriptedModel([_stuck()])
        async with running_bot(folder, boxes, model, recover=True, trigger=LONG) as bot:
            await until(lambda: bool(bot.sessions._sessions))
            await anyio.sleep(0.1)
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(folder, boxes, model, tools=tools, recover=True) as bot:
        await until(lambda: len(wishes.seen) == 1)
        await quiet(bot)
        assert wishes.seen == [("10001", "his")]
