"""The cooldown ends a conversation of two bots, and hardly ever affects a person."""

from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import ChatKey, ChatKind
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy.cooldown import Cooldown, CooldownState
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from tests.agent.bot import GROUP, Bot, fence, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.session.test_sessions import until

SETTINGS = TriggerSettings(burst_turns=3, burst_s=10, hour_turns=5, rest_s=60)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("pauses", "answered"),
    [
        ([1] * 10, 3),  # a quick sender gets three turns within ten seconds
        ([6] * 10, 5),  # a slower one gets five turns within an hour
        ([900] * 10, 10),  # a person who writes every 15 minutes is never limited
        ([1, 1, 100, 1, 1, 100], 5),  # this one never gets three at once, but five within an hour
        ([1, 1, 1, 1, 90, 1, 1, 1], 6),  # after a pause it gets three more turns
    ],
)
def test_a_sender_gets_the_expected_number_of_turns_before_the_cooldown(
    pauses: list[float], answered: int
) -> None:
    clock = Clock()
    cooldown, got = Cooldown(SETTINGS, clock), 0
    for pause in pauses:
        clock.now += pause
        if cooldown.state(GROUP, "rex") is CooldownState.NO:
            cooldown.note(GROUP, "rex")
            got += 1
    assert got == answered


@given(st.lists(st.floats(0.1, 59.0), max_size=200))
def test_a_sender_that_never_pauses_gets_at_most_the_turns_of_one_hour(pauses: list[float]) -> None:
    """This holds for any rhythm whose pauses are shorter than a minute."""
    clock = Clock()
    cooldown, got, told = Cooldown(SETTINGS, clock), 0, 0
    for pause in pauses:
        clock.now += pause
        rest = cooldown.state(GROUP, "rex")
        if rest is CooldownState.NO:
            cooldown.note(GROUP, "rex")
            got += 1
        told += rest is CooldownState.BEGINS
    assert got <= SETTINGS.hour_turns
    assert told <= 1


def test_each_sender_is_counted_separately() -> None:
    cooldown = Cooldown(SETTINGS, Clock())
    for _ in range(3):
        cooldown.note(GROUP, "rex")
    assert cooldown.state(GROUP, "rex") is CooldownState.BEGINS
    assert cooldown.state(GROUP, "lin") is CooldownState.NO
    unbounded = Cooldown(TriggerSettings(burst_turns=0, hour_turns=0), Clock())
    for _ in range(500):
        unbounded.note(GROUP, "rex")
    assert unbounded.state(GROUP, "rex") is CooldownState.NO


def test_a_sender_that_starts_a_new_thread_each_time_has_one_count() -> None:
    """An automatic responder answers each mail with a new mail, which starts a thread."""
    cooldown, got = Cooldown(SETTINGS, Clock()), 0
    for number in range(10):
        thread = ChatKey("mail", ChatKind.PRIVATE, "away@example.test", str(number))
        if cooldown.state(thread, "away@example.test") is CooldownState.NO:
            cooldown.note(thread, "away@example.test")
            got += 1
    assert got == SETTINGS.burst_turns


async def test_a_conversation_with_a_bot_that_always_answers_ends(
    folder: Path, boxes: BoxCache
) -> None:
    """The other bot answers each message of our bot at once, and mentions our bot in its answer."""
    model = ScriptedModel(lambda _: fence("send_channel_message('and you?')"))
    trigger = TriggerSettings(debounce_s=0, burst_turns=4)

    async with running_bot(folder, boxes, model, trigger=trigger) as bot:
        answers = [0]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_answer_everything, bot, answers)
            await bot.say("Nekro, what do you think?", GROUP, to_bot=True, user="rex")
            # Our bot does not answer the fifth message of the other bot.
            await until(lambda: answers[0] == 5)
            await bot.say("Nekro, hello", GROUP, to_bot=True)
            await until(lambda: len(bot.said(GROUP)) == 6)
            tasks.cancel_scope.cancel()
        said = bot.said(GROUP)
        assert said[:4] == ["and you?"] * 4
        assert said[4].startswith("You wake me faster than I can keep up with.")
        assert said[5:] == ["and you?"], "other people must still be answered"


async def test_a_person_gets_three_answers_to_quick_commands_and_a_super_user_gets_all(
    folder: Path, boxes: BoxCache
) -> None:
    trigger = TriggerSettings(debounce_s=0, burst_turns=3)
    boss = CommandSettings(super_users=frozenset({"fake:boss"}))
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=trigger, command=boss) as bot:
        for _ in range(6):
            await bot.say("/status", GROUP, user="rex")
        for _ in range(6):
            await bot.say("/status", GROUP, user="boss")
        await until(lambda: len(bot.said(GROUP)) == 9)
        await bot.say("/help", GROUP, user="lin")
        await until(lambda: len(bot.said(GROUP)) == 10)
        assert bot.said(GROUP)[-1].startswith("What you can type here:")


async def _answer_everything(bot: Bot, answers: list[int]) -> None:
    while True:
        if len(bot.said(GROUP)) > answers[0]:
            await bot.say("Nekro, I think so too", GROUP, to_bot=True, user="rex")
            answers[0] += 1
        await anyio.sleep(0.01)
