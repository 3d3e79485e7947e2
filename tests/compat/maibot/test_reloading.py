"""After a hundred reloads of a plugin that is in use, no more objects exist than before."""

import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nekro_core.chat import ChatMessage, Sender, Text
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.testing import Bot
from tests.compat.maibot.plant import PLUGINS, bot_with
from tests.plugins.host.reloading import LONG, grown_by_reloads

pytestmark = [pytest.mark.long, pytest.mark.reloads, pytest.mark.timeout(600)]

NEEDED = {"fortune-teller": ("fortune-api",)}
CALLS = {
    "fortune-teller": ("try_to_rig",),
    "picture-maker": ("make_picture",),
    "tts-voice": ("speak_aloud",),
}
SAID = {"number-game": "/reset_scores", "house-rules": "buy spam"}


def use(bot: Bot, name: str) -> Callable[[], Awaitable[None]]:
    """A function that uses a plugin as a chat does: it calls its tools and gives messages to its
    hooks. It sends nothing, because a chat may send only 30 messages a minute."""
    chat, registry = bot.chat("group_7"), bot.app.plugins
    message = ChatMessage(
        chat_key=chat.key,
        message_id="1",
        sender=Sender("lin", "Lin"),
        segments=(Text(SAID.get(name, "hello")),),
        time=bot.clock.wall(),
        account="bot",
    )

    async def talk() -> None:
        ctx = registry.context_for(chat.key, user_id="lin")
        await registry.on_user_message(ctx, message)
        await registry.prompt_injections(ctx)
        tools = registry.tools_for(chat.key)
        for each in CALLS.get(name, ()):
            tool = tools.resolve(each)
            assert tool
            await call_tool(tool, ctx, (" ",) if tool.parameters else ())
        bot.platform.sent.clear()

    return talk


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.name, marks=[] if path.name == "number-game" else pytest.mark.slow)
        for path in sorted(PLUGINS.iterdir())
    ],
)
async def test_a_hundred_reloads_leave_no_objects(tmp_path: Path, name: str) -> None:
    with warnings.catch_warnings():
        # the SDK warns that @Action is deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        async with bot_with(tmp_path, name, *NEEDED.get(name, ())) as bot:
            first, last = LONG
            grown = await grown_by_reloads(
                bot.app.plugins, f"local/{name}", first=first, last=last, use=use(bot, name)
            )
    assert grown == {}
