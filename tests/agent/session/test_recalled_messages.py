"""A question that its author recalls is not answered."""

from pathlib import Path

import anyio

from nekro_core.llm.scripted import ScriptedModel
from tests.agent.bot import GROUP, LIN, LONG, fence, running_bot, until
from tests.agent.conftest import BoxCache
from tests.delivery.outbound.killed_processes import watched


async def test_a_recall_of_the_asking_message_ends_the_turn(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [
            fence("import time\nwhile True: time.sleep(0.01)"),
            fence("send_channel_message('two')"),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            asked = await bot.say("one")
            await until(lambda: len(model.requests) == 1)
            await anyio.sleep(0.1)
            await bot.inbox.recall(LIN, asked.message_id)
        assert bot.said() == []
        assert (await bot.last_turn()).stop == "recalled"
        assert await bot.ask("two") == ["two"]
        assert "> one" not in bot.prompt()


async def test_messages_sent_before_the_recall_stay_and_no_more_follow(
    folder: Path, boxes: BoxCache
) -> None:
    code = "send_channel_message('begun')\nimport time\ntime.sleep(60)\nsend_channel_message('no')"
    model = ScriptedModel([fence(code)])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            asked = await bot.say("one")
            await until(lambda: bot.said() == ["begun"])
            await bot.inbox.recall(LIN, asked.message_id)
        assert bot.said() == ["begun"]
        assert (await bot.last_turn()).stop == "recalled"


async def test_other_questions_of_the_person_are_still_answered(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [fence("import time\ntime.sleep(60)"), fence("send_channel_message('two')")]
    )
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        first = await bot.say("one")
        await bot.say("two")
        bot.typed()
        await until(lambda: len(model.requests) == 1)
        await bot.inbox.recall(LIN, first.message_id)
        await until(lambda: bot.typed() is None and bool(bot.said()))
        assert bot.said() == ["two"]


async def test_a_recall_of_another_persons_message_ends_no_turn(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("import time\ntime.sleep(0.3)\nsend_channel_message('one')")])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn(GROUP):
            await bot.say("one", GROUP, to_bot=True)
            await until(lambda: len(model.requests) == 1)
            other = await bot.say("look", GROUP, user="mo")
            await bot.inbox.recall(GROUP, other.message_id)
        assert bot.said(GROUP) == ["one"]


async def test_a_recall_of_the_persons_message_in_another_chat_ends_no_turn(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("import time\ntime.sleep(0.3)\nsend_channel_message('one')")])
    async with running_bot(folder, boxes, model) as bot:
        other = await bot.say("look", GROUP)
        async with bot.turn():
            await bot.say("one")
            await until(lambda: len(model.requests) == 1)
            await bot.inbox.recall(GROUP, other.message_id)
        assert bot.said() == ["one"]


async def test_a_message_recalled_while_its_author_types_is_not_answered(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("send_channel_message('two')")])
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        first = await bot.say("one")
        await bot.inbox.recall(LIN, first.message_id)
        bot.typed()
        async with bot.turn():
            await bot.say("two")
            bot.typed()
        assert bot.said() == ["two"]
        assert len(model.requests) == 1


async def test_a_turn_whose_question_was_recalled_is_not_resumed(
    folder: Path, boxes: BoxCache, tmp_path: Path
) -> None:
    model = ScriptedModel([fence("import time\ntime.sleep(60)")])
    async with running_bot(folder, boxes, model) as bot, watched(folder, lambda: 0) as moments:
        asked = await bot.say("one")
        await until(lambda: len(model.requests) == 1)
        with anyio.fail_after(30):
            while not await bot.turns():
                await anyio.sleep(0.01)
        # The recall arrived just before the kill: the store has it, but no session saw it.
        await bot.store.messages.recall(LIN, asked.message_id)
    left = moments[-1].put(tmp_path / "killed")
    again = ScriptedModel([])
    async with running_bot(left, boxes, again, recover=True) as bot:
        await bot.settled()
        assert again.requests == []
        assert bot.said() == []
