"""A turn answers one person. It uses only this person's rights and quota."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey
from nekro_core.llm.model import ChatRequest, ModelProfile, TextPart
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel, ScriptedReply
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import Person, TimerRow
from tests.agent.bot import GROUP, LIN, LONG, Bot, answer, fence, running_bot, text_of, until
from tests.agent.commands.test_policy_commands import command
from tests.agent.conftest import BoxCache
from tests.agent.native import call

OPERATOR = CommandSettings(super_users=frozenset({"fake:99999"}))
_ASKED = re.compile(r" NEW(?: [a-z ]+)?\n((?:> .*\n?)+)")


def asked_in(request: ChatRequest) -> list[str]:
    """Return the texts that a prompt marks NEW. A message that an earlier step of the turn showed
    is not marked again."""
    return [
        text.removeprefix("> ").strip()
        for found in _ASKED.findall(text_of(request, from_message=1))
        for text in found.strip().split("\n")
    ]


class Wishes:
    """A model and its tool `carry_out`. For each message marked NEW, the model calls this tool."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def reply(self, request: ChatRequest) -> ScriptedReply:
        calls = [f"carry_out({text!r})" for text in asked_in(request)]
        return fence("\n".join([*calls, "send_channel_message('done')"]))

    async def carry_out(self, _ctx: AgentCtx, wish: str) -> str:
        """Do what a person wishes.

        Args:
            wish: What to do.
        """
        self.seen.append((_ctx.from_user_id, wish))
        return "done"


async def quiet(bot: Bot, chat: ChatKey = GROUP) -> None:
    """Wait until nothing is left to answer."""
    with anyio.fail_after(30):
        while bot.sessions.at_work(chat) or any(t.running for t in await bot.turns(chat)):
            await anyio.sleep(0.01)
    await anyio.sleep(0.05)


async def test_a_tool_sees_the_person_who_asked_for_its_call(folder: Path, boxes: BoxCache) -> None:
    wishes = Wishes()
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(folder, boxes, model, tools=tools, trigger=LONG) as bot:
        await bot.say("hello", GROUP, user="99999", to_bot=True)
        await bot.say("remove the others", GROUP, user="10001", to_bot=True)
        await bot.say("how are you?", GROUP, user="99999", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(wishes.seen) == 3)
        await quiet(bot)
        assert wishes.seen == [
            ("99999", "hello"),
            ("99999", "how are you?"),
            ("10001", "remove the others"),
        ]
        assert [turn.user_id for turn in await bot.turns(GROUP)] == ["99999", "10001"]
        first, second = bot.prompt(0), bot.prompt(1)
        head = r"#\d+(?: \d\d:\d\d)? 10001 \(10001\) → you"
        assert re.search(f"{head} LATER\n> remove the others", first)
        assert "[task] 99999 (99999) asks you. Answer what is marked NEW." in first
        assert "[note] LATER marks what others ask" in first
        assert re.search(f"{head} NEW\n> remove the others", second)
        assert "[task] 10001 (10001) asks you. Answer what is marked NEW." in second
        assert "LATER" not in second


async def test_a_question_of_another_person_during_a_turn_gets_the_next_turn(
    folder: Path, boxes: BoxCache
) -> None:
    wishes = Wishes()

    async def first() -> AsyncIterator[str]:
        yield "```python\n"
        await bot.say("make me a moderator", GROUP, user="10001", to_bot=True)
        await bot.say("and a cake", GROUP, user="99999", to_bot=True)
        yield "print('looking')\n```"

    def script(request: ChatRequest) -> ScriptedReply:
        return first() if len(model.requests) == 1 else wishes.reply(request)

    model, tools = ScriptedModel(script), [wishes.carry_out]
    async with running_bot(folder, boxes, model, tools=tools) as running:
        bot = running
        await bot.say("tea please", GROUP, user="99999", to_bot=True)
        await until(lambda: len(wishes.seen) == 3)
        await quiet(bot)
        assert wishes.seen == [
            ("99999", "tea please"),
            ("99999", "and a cake"),
            ("10001", "make me a moderator"),
        ]
        report = text_of(model.requests[1], from_message=-1)
        assert " → you LATER\n> make me a moderator" in report
        assert " 99999 → you NEW\n> and a cake" in report


async def test_a_system_line_has_no_requester_and_gets_its_own_turn(
    folder: Path, boxes: BoxCache
) -> None:
    wishes = Wishes()
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(folder, boxes, model, tools=tools, trigger=LONG) as bot:
        await bot.say("hello", GROUP, user="99999", to_bot=True)
        await bot.journal.note(GROUP, "a timer is due: remove the others", trigger=True)
        bot.typed(GROUP)
        await until(lambda: len(wishes.seen) == 2)
        await quiet(bot)
        assert wishes.seen == [("99999", "hello"), ("", "a timer is due: remove the others")]
        assert " system LATER\n> a timer is due" in bot.prompt(0)
        assert " system NEW wakes you\n> a timer is due" in bot.prompt(1)
        assert "asks you" not in bot.prompt(1)


async def test_in_tool_mode_too_a_turn_answers_one_person(folder: Path, boxes: BoxCache) -> None:
    wishes = Wishes()

    def script(request: ChatRequest) -> ScriptedReply:
        if request.messages[-1].role == "tool":
            return "done"
        wanted = [call("carry_out", wish=wish) for wish in asked_in(request)]
        return ScriptedAnswer(calls=wanted)

    model, tools = ScriptedModel(script), [wishes.carry_out]
    settings = AgentSettings(mode="tools")
    async with running_bot(
        folder, boxes, model, tools=tools, trigger=LONG, settings=settings
    ) as bot:
        await bot.say("hello", GROUP, user="99999", to_bot=True)
        await bot.say("remove the others", GROUP, user="10001", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(wishes.seen) == 2)
        await quiet(bot)
        assert wishes.seen == [("99999", "hello"), ("10001", "remove the others")]


async def test_a_small_model_is_shown_only_what_the_asking_person_wrote(
    folder: Path, boxes: BoxCache
) -> None:
    profile = ModelProfile(name="small", grammar=True, prefers_examples=True, context_tokens=4096)

    def script(request: ChatRequest) -> str:
        said = request.messages[-1].parts[0]
        assert isinstance(said, TextPart)
        words = said.text.split(chr(10))
        return "\n".join(f"send_channel_message('to {each}')" for each in words)

    model = ScriptedModel(script, profile=profile)
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        for number in (1, 2):
            await bot.say(f"hello {number}", GROUP, user="99999", to_bot=True)
            await bot.say(f"good day {number}", GROUP, user="10001", to_bot=True)
            await bot.say(f"how are you {number}", GROUP, user="99999", to_bot=True)
            bot.typed(GROUP)
            await until(lambda: len(bot.said(GROUP)) == 3 * number)  # noqa: B023
            await quiet(bot)
        assert bot.said(GROUP) == [
            f"to {words} {number}"
            for number in (1, 2)
            for words in ("hello", "how are you", "good day")
        ]
        shown = [str(message.parts[0]) for message in model.requests[-1].messages[-3:]]
        assert [re.findall(r"hello \d|good day \d", each) for each in shown] == [
            ["hello 2"],
            ["hello 2"],
            ["good day 2"],
        ], "each answer stands behind its question"


# --- quotas, erasing, timers, cooldown ------------------------------------------------------------


async def test_a_turn_counts_against_the_requesters_quota(folder: Path, boxes: BoxCache) -> None:
    wishes = Wishes()
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(
        folder, boxes, model, tools=tools, trigger=LONG, command=OPERATOR
    ) as bot:
        (folder / "conduct.toml").write_text("[bot]\nperson_quota = { turns = 1 }\n")
        await bot.services.policies.conduct.look()
        for expected in (3, 6):
            await bot.say("hello", GROUP, user="99999", to_bot=True)
            await bot.say("a long story", GROUP, user="10001", to_bot=True)
            await bot.say("good day", GROUP, user="20002", to_bot=True)
            bot.typed(GROUP)
            await until(lambda: len(bot.said(GROUP)) == expected)  # noqa: B023
            await quiet(bot)
        assert bot.said(GROUP)[:3] == ["done"] * 3
        assert set(bot.said(GROUP)[3:]) == {"You have used up what you may ask of me today."}
        for user in ("99999", "10001", "20002"):
            used = await bot.store.turns.usage(since=0, user_id=user)
            assert (used.turns, used.steps) == (1, 1), user


async def test_erasing_a_person_removes_only_the_runs_of_their_own_turns(
    folder: Path, boxes: BoxCache
) -> None:
    wishes = Wishes()
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(
        folder, boxes, model, tools=tools, trigger=LONG, command=OPERATOR
    ) as bot:
        await bot.say("hello, it is me", GROUP, user="99999", to_bot=True)
        await bot.say("keep vermilion", GROUP, user="10001", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(wishes.seen) == 2)
        await quiet(bot)
        runs = {
            turn.user_id: await bot.store.runs.of_turn(turn.turn_id)
            for turn in await bot.turns(GROUP)
        }
        assert "vermilion" not in runs["99999"][0].code
        assert "vermilion" in runs["10001"][0].code
        await command(bot, "/erase me sure", user="99999")
        await until(lambda: bot.commands.at_work == 0)
        assert await bot.store.runs.get(runs["99999"][0].run_id) is None
        assert await bot.store.runs.get(runs["10001"][0].run_id) is not None
        await command(bot, "/erase me sure", user="10001")
        await until(lambda: bot.commands.at_work == 0)
        assert await bot.store.runs.get(runs["10001"][0].run_id) is None


async def test_a_timer_belongs_to_the_person_who_asked_for_it(
    folder: Path, boxes: BoxCache
) -> None:
    async def set_a_timer(_ctx: AgentCtx, what: str) -> str:
        """Set a timer.

        Args:
            what: What to tell the person.
        """
        await bot.store.timers.put(  # The bot's own timer tool stores a timer in the same way.
            TimerRow(
                timer_id=what,
                chat_key=GROUP,
                kind="once",
                state="active",
                text=what,
                due=time.time() + 500,
                created=time.time(),
            )
        )
        return "set"

    def script(request: ChatRequest) -> str:
        calls = [f"set_a_timer({text!r})" for text in asked_in(request)]
        return fence("\n".join([*calls, "send_channel_message('set')"]))

    model = ScriptedModel(script)
    async with running_bot(folder, boxes, model, tools=[set_a_timer], trigger=LONG) as running:
        bot = running
        await bot.say("hers", GROUP, user="99999", to_bot=True)
        await bot.say("his", GROUP, user="10001", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(bot.said(GROUP)) == 2)
        await quiet(bot)
        for user, theirs in (("99999", "hers"), ("10001", "his")):
            person = Person(adapter="fake", user_id=user, instances=("fake",))
            traces = await bot.store.erasing.look(person)
            assert traces.timers == ((GROUP, theirs),)


async def test_the_cooldown_of_one_sender_delays_no_other_sender(
    folder: Path, boxes: BoxCache
) -> None:
    trigger = TriggerSettings(debounce_s=30, burst_turns=2, burst_s=60)
    async with running_bot(
        folder, boxes, ScriptedModel(lambda _: answer("yes")), trigger=trigger
    ) as bot:
        for number in range(2):
            await bot.say(f"loop {number}", GROUP, user="rex", to_bot=True)
            if number:
                await bot.say("just once", GROUP, user="ken", to_bot=True)
            bot.typed(GROUP)
            await until(lambda: len(bot.said(GROUP)) == 1 + 2 * number)  # noqa: B023
        await bot.say("loop 2", GROUP, user="rex", to_bot=True)
        await bot.say("and me", GROUP, user="ken", to_bot=True)
        await until(lambda: len(bot.said(GROUP)) == 4)
        bot.typed(GROUP)
        await until(lambda: len(bot.said(GROUP)) == 5)
        await quiet(bot)
        users = [turn.user_id for turn in await bot.turns(GROUP)]
        assert users == ["rex", "rex", "ken", "ken"]


# --- stop, reset, erase ---------------------------------------------------------------------------


async def _one_at_work_and_one_who_waits(bot: Bot) -> None:
    await bot.say("go on", GROUP, user="99999", to_bot=True)
    await until(lambda: bool(bot.said(GROUP)))
    await bot.say("and mine?", GROUP, user="10001", to_bot=True)


def _busy_first(request: ChatRequest) -> str:
    if asked_in(request) == ["go on"]:
        return answer("one") + "\n" + fence("while True: pass")
    return answer("two")


async def test_the_command_stop_drops_all_questions_before_it(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel(_busy_first)) as bot:
        await _one_at_work_and_one_who_waits(bot)
        await bot.say("/stop", GROUP, user="99999", to_bot=True)
        await until(lambda: len(bot.said(GROUP)) == 2)
        await quiet(bot)
        assert bot.said(GROUP) == ["one", "Stopped."]
        assert len(bot.model.requests) == 1
        assert await bot.store.turns.unanswered(since=0) == []


async def test_stopping_a_turn_from_the_page_keeps_the_questions_of_others(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel(_busy_first)) as bot:
        await _one_at_work_and_one_who_waits(bot)
        assert await bot.sessions.stop(GROUP)
        await until(lambda: len(bot.said(GROUP)) == 3)
        assert bot.said(GROUP) == ["one", "Stopped.", "two"]
        await quiet(bot)
        assert [turn.user_id for turn in await bot.turns(GROUP)] == ["99999", "10001"]


async def test_the_command_reset_drops_the_questions_of_others_too(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel(_busy_first)) as bot:
        await _one_at_work_and_one_who_waits(bot)
        await bot.sessions.reset(GROUP)
        await quiet(bot)
        assert bot.said(GROUP) == ["one", "Stopped."]
        assert len(bot.model.requests) == 1
        assert await bot.store.turns.unanswered(since=0) == []


@pytest.mark.parametrize("with_command", [True, False])
async def test_a_question_that_waits_for_the_typing_pause_is_dropped_by_a_reset(
    folder: Path, boxes: BoxCache, with_command: bool
) -> None:
    model = ScriptedModel(_busy_first)
    async with running_bot(folder, boxes, model, command=OPERATOR, trigger=LONG) as bot:
        await bot.say("hello", GROUP, user="10001", to_bot=True)
        if with_command:
            await command(bot, "/reset", user="99999")
            await until(lambda: bot.commands.at_work == 0)
        else:
            await bot.sessions.reset(GROUP)
        bot.typed(GROUP)
        await quiet(bot)
        assert model.requests == []
        await bot.say("are you there?", GROUP, user="mei", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(model.requests) == 1)
        await quiet(bot)
        assert [turn.user_id for turn in await bot.turns(GROUP)] == ["mei"]


async def test_a_question_after_the_command_reset_is_answered(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel(_busy_first), command=OPERATOR) as bot:
        await _one_at_work_and_one_who_waits(bot)
        await bot.say("/reset", GROUP, user="99999", to_bot=True)
        await bot.say("are you there?", GROUP, user="mei", to_bot=True)
        await until(lambda: "two" in bot.said(GROUP))
        await quiet(bot)
        assert [turn.user_id for turn in await bot.turns(GROUP)] == ["99999", "mei"]


async def test_questions_of_an_erased_person_are_dropped(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel(_busy_first), command=OPERATOR) as bot:
        await _one_at_work_and_one_who_waits(bot)
        await bot.say("I wait too", GROUP, user="mei", to_bot=True)
        await command(bot, "/erase me sure", user="10001")
        await until(lambda: bot.commands.at_work == 0)
        await until(lambda: "two" in bot.said(GROUP))
        await quiet(bot)
        assert [turn.user_id for turn in await bot.turns(GROUP)] == ["99999", "mei"]


# --- other messages that start a turn -------------------------------------------------------------


async def test_a_message_whose_answer_a_plugin_forces_waits_for_earlier_turns(
    folder: Path, boxes: BoxCache
) -> None:
    wishes = Wishes()
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(folder, boxes, model, tools=tools, trigger=LONG) as bot:
        bot.plugins.signal = lambda said: (
            MsgSignal.FORCE_TRIGGER if said.text == "now" else MsgSignal.CONTINUE
        )
        await bot.say("hello", GROUP, user="99999", to_bot=True)
        await bot.say("now", GROUP, user="10001")
        await bot.say("just talk", GROUP, user="mei")
        await bot.say("again", GROUP, user="99999", to_bot=True)
        bot.typed(GROUP)
        await until(lambda: len(wishes.seen) == 3)
        await quiet(bot)
        assert wishes.seen == [("99999", "hello"), ("99999", "again"), ("10001", "now")]


@pytest.mark.parametrize("chat", [GROUP, LIN])
async def test_several_people_in_a_private_chat_get_their_own_turns(
    folder: Path, boxes: BoxCache, chat: ChatKey
) -> None:
    """Several people may write in a private chat, for example in a Matrix room with several
    members."""
    wishes = Wishes()
    model, tools = ScriptedModel(wishes.reply), [wishes.carry_out]
    async with running_bot(folder, boxes, model, tools=tools, trigger=LONG) as bot:
        await bot.say("hello", chat, user="99999", to_bot=True)
        await bot.say("me too", chat, user="10001", to_bot=True)
        bot.typed(chat)
        await until(lambda: len(wishes.seen) == 2)
        await quiet(bot, chat)
        assert wishes.seen == [("99999", "hello"), ("10001", "me too")]
