"""In a group, a line without a mention wakes the bot only if the line continues a conversation with
the bot."""

from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Reply, Text
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.store import DecisionReason, MessageDecision
from tests.agent.bot import GROUP, Bot, answer, running_bot
from tests.agent.conftest import BoxCache


async def decided(bot: Bot, text: str, user: str) -> MessageDecision:
    """Say something to the group, and return what the bot decided about it."""
    record = await bot.say(text, GROUP, user=user)
    with anyio.fail_after(30):
        while (found := await bot.store.decisions.of(record.seq)) is None:
            await anyio.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("wish", "question", "reply"),
    [
        ("Nekro, recommend me a film", "Funny or tense?", "something funny"),
        ("Nekro，推荐一部电影", "想看搞笑的还是紧张的？", "搞笑的吧"),
        ("Nekro、映画を勧めて", "笑えるのと怖いの、どちらがいいですか？", "笑えるやつ"),
    ],
)
async def test_an_answer_to_the_bots_question_wakes_the_bot(
    folder: Path, boxes: BoxCache, wish: str, question: str, reply: str
) -> None:
    model = ScriptedModel([answer(question), answer("Then see Airplane!")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.say("who has the key of the shed", GROUP, user="mei")
        await bot.say("it hangs at the door", GROUP, user="tom")
        assert await bot.ask(wish, GROUP) == [question]
        async with bot.turn(GROUP):
            why = await decided(bot, reply, "lin")
        assert why.reason is DecisionReason.GOES_ON
        assert "answers_question" in why.detail
        assert bot.said(GROUP)[-1] == "Then see Airplane!"


async def test_the_talk_of_other_people_does_not_wake_the_bot(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("Funny or tense?")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("Nekro, recommend me a film", GROUP)
        for user, text in (
            ("mei", "tom: did you find the key of the shed?"),
            ("tom", "mei: yes, it was in my coat"),
            ("mei", "good, I will mow the lawn then"),
        ):
            why = await decided(bot, text, user)
            assert why.reason is DecisionReason.NOT_ADDRESSED, text
        assert len(model.requests) == 1


async def test_a_line_that_names_somebody_else_does_not_wake_the_bot(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("Funny or tense?")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.say("evening all", GROUP, user="mei")
        await bot.ask("Nekro, recommend me a film", GROUP)
        why = await decided(bot, "mei, what do you think?", "lin")
        assert why.reason is DecisionReason.NOT_ADDRESSED
        assert why.detail.endswith("names_other")
        assert len(model.requests) == 1


async def test_a_line_that_names_another_account_of_the_bot_does_not_wake_this_account(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("Funny or tense?")])
    folder.mkdir(exist_ok=True)
    (folder / "conduct.toml").write_text('[accounts.mei]\nnames = ["Mei"]\n')
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("Nekro, recommend me a film", GROUP)
        why = await decided(bot, "Mei, and you?", "lin")
        assert why.reason is DecisionReason.NOT_ADDRESSED
        assert why.detail.endswith("names_other")
        assert len(model.requests) == 1


async def test_a_reply_to_somebody_else_does_not_wake_the_bot(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("Funny or tense?")])
    async with running_bot(folder, boxes, model) as bot:
        asked = await bot.say("who comes to the cinema?", GROUP, user="mei")
        await bot.ask("Nekro, recommend me a film", GROUP)
        record = await bot.say(
            "", GROUP, user="lin", segments=(Reply(asked.message_id, "mei"), Text("me"))
        )
        with anyio.fail_after(30):
            while (why := await bot.store.decisions.of(record.seq)) is None:
                await anyio.sleep(0.01)
        assert why.reason is DecisionReason.NOT_ADDRESSED
        assert len(model.requests) == 1


async def test_with_the_mode_mentioned_a_line_without_a_mention_does_not_wake_the_bot(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("Funny or tense?")])
    folder.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "conduct.toml").write_text('[bot]\nparticipation = "mentioned"\n')
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("Nekro, recommend me a film", GROUP)
        why = await decided(bot, "something funny", "lin")
        assert why == MessageDecision(reason=DecisionReason.NOT_ADDRESSED)
        assert len(model.requests) == 1


async def test_an_answer_to_a_question_that_the_bot_asked_before_a_restart_wakes_it(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("Funny or tense?")])) as bot:
        await bot.ask("Nekro, recommend me a film", GROUP)
    async with running_bot(
        folder, boxes, ScriptedModel([answer("Airplane!")]), recover=True
    ) as bot:
        async with bot.turn(GROUP):
            await bot.say("something funny", GROUP, user="lin")
        assert bot.said(GROUP)[-1] == "Airplane!"


async def test_an_answer_to_yesterdays_question_does_not_wake_the_bot(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("Funny or tense?")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("Nekro, recommend me a film", GROUP)
        newest = (await bot.store.messages.newest(GROUP, 1))[0]
        record = await bot.say("good morning all", GROUP, user="lin", time=newest.time + 40_000)
        with anyio.fail_after(30):
            while (why := await bot.store.decisions.of(record.seq)) is None:
                await anyio.sleep(0.01)
        assert why.reason is DecisionReason.NOT_ADDRESSED
