"""The model never sees a message that a plugin blocks, or the words that a plugin removes from a
message."""

from pathlib import Path

import anyio
import pytest

from nekro_core.testing import Bot
from tests.compat.maibot.plant import plant

HEAD = """
from maibot_sdk import Command, EventHandler, HookHandler, MaiBotPlugin
from maibot_sdk.types import EventType

class Base(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
"""

BY_HOOK = f"""{HEAD}
class Filter(Base):
    @HookHandler("chat.receive.{{hook}}")
    async def clean(self, message, **kwargs):
        {{change}}
        return {{{{"action": "continue", "modified_kwargs": {{{{"message": message}}}}}}}}

def create_plugin():
    return Filter()
"""

TEXT = 'message["processed_plain_text"] = message["processed_plain_text"].replace("darn", "***")'
RAW = (
    'message["raw_message"] = [{"type": "text", "data": each["data"].replace("darn", "***")} '
    'if each["type"] == "text" else each for each in message["raw_message"]]'
)

BY_EVENT = f"""{HEAD}
class Filter(Base):
    @EventHandler("clean", event_type=EventType.{{event}}, intercept_message=True)
    async def clean(self, message, plain_text="", **kwargs):
        if "darn" in plain_text:
            return {{answer}}

    @Command("look", pattern="^/look$")
    async def look(self, stream_id, **kwargs):
        found = await self.ctx.message.get_recent(stream_id, 20)
        texts = [each["processed_plain_text"] for each in found]
        await self.ctx.send.text(str(texts), stream_id)
        return True, None, True

def create_plugin():
    return Filter()
"""


@pytest.mark.parametrize("change", [TEXT, RAW], ids=["text", "segments"])
@pytest.mark.parametrize("hook", ["before_process", "after_process"])
async def test_the_model_reads_only_the_rewritten_text(
    tmp_path: Path, hook: str, change: str
) -> None:
    plant(tmp_path, BY_HOOK.format(hook=hook, change=change), plugin_id="ann.filter")
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat()
        assert await chat.ask("a darn cold day", reply="yes") == ["yes"]
        assert "a *** cold day" in bot.prompt
        assert "darn" not in bot.prompt
        assert await chat.ask("and now?", reply="the same") == ["the same"]
        assert "a *** cold day" in bot.prompt
        assert "darn" not in bot.prompt
        assert "a darn cold day" not in "\n".join(await chat.record())


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ("ON_MESSAGE_PRE_PROCESS", '{"blocked": True}'),
        ("ON_MESSAGE_PRE_PROCESS", '{"intercepted": True}'),
        ("ON_MESSAGE_PRE_PROCESS", '{"continue_processing": False}'),
        ("ON_MESSAGE_PRE_PROCESS", "True, False, None, None, None"),
        ("ON_MESSAGE", '{"blocked": True}'),
        ("ON_MESSAGE", '{"intercepted": True}'),
    ],
)
async def test_the_model_never_sees_a_blocked_message(
    tmp_path: Path, event: str, answer: str
) -> None:
    plant(tmp_path, BY_EVENT.format(event=event, answer=answer), plugin_id="ann.filter")
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat()
        assert await chat.say("a darn cold day") == []
        assert "darn" not in (await chat.say("/look"))[0]
        assert await chat.ask("hello", reply="hi") == ["hi"]
        assert "darn" not in bot.prompt
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat().ask("hello again", reply="hi") == ["hi"]
        assert "hello again" in bot.prompt
        assert "darn" not in bot.prompt


@pytest.mark.long
async def test_a_message_that_arrives_during_a_turn_is_rewritten_before_the_turn_reads_it(
    tmp_path: Path,
) -> None:
    plant(tmp_path, BY_HOOK.format(hook="before_process", change=TEXT), plugin_id="ann.filter")
    slow = "import time\ntime.sleep(1.5)\nprint('the first step is over')"
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat()

        async def ask() -> None:
            assert await chat.ask("wait a moment", code=slow, reply="done") == ["done"]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while not bot.model.requests:
                await anyio.sleep(0.05)
            await chat._accept("a darn cold day", "Lin")
        assert "a *** cold day" in bot.prompt
        assert "darn" not in "\n".join(map(str, bot.model.requests))
