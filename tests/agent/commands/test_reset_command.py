"""``/reset``: it clears the chat's history for the model, its boxes and its plugins' data."""

from pathlib import Path

import anyio
from msgspec import structs

from nekro_core.chat import (
    CONVERSATION_RESET,
    Author,
    ChatKey,
    Notice,
    Record,
    Role,
    Text,
    plain_text,
)
from nekro_core.llm.scripted import ScriptedModel
from tests.agent.bot import GROUP, LIN, Bot, fence, running_bot
from tests.agent.conftest import BoxCache

DONE = "A new conversation begins. I have forgotten what was said, and the files of my boxes."
WRITE = fence("open('kept.txt', 'w').write('x')\nsend_channel_message('written')")
LOOK = fence("import os\nsend_channel_message(str(os.path.exists('kept.txt')))")


async def told(bot: Bot, text: str, count: int, chat: ChatKey = LIN) -> str:
    """Run a command and wait for message number ``count``. Returns the last message."""
    await bot.say(text, chat)
    with anyio.fail_after(30):
        while len(bot.said(chat)) < count:
            await anyio.sleep(0.005)
    return bot.said(chat)[-1]


async def test_after_a_reset_the_model_sees_no_earlier_messages(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([WRITE, LOOK, LOOK])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("my cat is called Mochi") == ["written"]
        assert await told(bot, "/reset", 2) == DONE
        assert bot.plugins.resets == [LIN]
        assert await bot.ask("what is my cat called?") == ["False"]
        assert "Mochi" not in bot.prompt()
        assert "what is my cat called?" in bot.prompt()
        records = await bot.store.messages.newest(LIN, 20)
        assert "Mochi" in str(records[0].segments), "the store keeps the old messages"
        assert [record.begins_anew for record in records].count(True) == 1
    async with running_bot(folder, boxes, model, recover=True) as bot:
        assert await bot.ask("and now?") == ["False"]
        assert "Mochi" not in bot.prompt(), "the reset also holds after a restart"


async def test_after_a_reset_no_tool_reads_earlier_messages(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(["Mochi, I see", "hello"])
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("my cat is called Mochi")
        assert "Mochi" in str(await bot.journal.newest(LIN, 500))
        await told(bot, "/reset", 2)
        await bot.ask("hi")
        read = await bot.journal.newest(LIN, 500)
        assert "Mochi" not in str(read)
        assert [plain_text(record.segments) for record in read][-2:] == ["hi", "hello"]


async def test_in_a_group_only_administrators_may_reset(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        assert await told(bot, "/reset", 1, GROUP) == "You may not use /reset."
        assert bot.plugins.resets == []
        await bot.say("/reset", GROUP, role=Role.ADMIN)
        with anyio.fail_after(30):
            while len(bot.said(GROUP)) < 2:
                await anyio.sleep(0.005)
        assert bot.said(GROUP)[1] == DONE
        assert bot.plugins.resets == [GROUP]


def test_a_message_that_looks_like_the_mark_of_a_reset_resets_nothing() -> None:
    marks = (Notice(CONVERSATION_RESET), Text("anew"))
    for author in Author:
        record = Record(seq=1, chat_key=LIN, author=author, segments=marks, time=0.0)
        assert record.begins_anew is (author is Author.SYSTEM)
        assert not structs.replace(record, segments=marks[1:]).begins_anew


async def test_reset_stops_the_running_turn_first(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([fence("import time\ntime.sleep(60)"), LOOK])
    async with running_bot(folder, boxes, model) as bot:
        await bot.say("work for a minute")
        with anyio.fail_after(30):
            while not model.requests:
                await anyio.sleep(0.005)
        assert await told(bot, "/reset", 2) == DONE
        assert bot.said()[0] == "Stopped."
        assert not bot.sessions.working(LIN)
        assert await bot.ask("hello") == ["False"]
