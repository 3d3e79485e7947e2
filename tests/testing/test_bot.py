"""Tests of the bot of the plugin kit. With this bot, authors of plugins test their plugins in
conversations."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from nekro_core.api.plugin import ToolFailure
from nekro_core.testing import BEGINNING, Bot, FakeClock, PluginNotLoaded
from tests.plugins.world import HEADER

DICE = (
    HEADER.format(name="cup", author="ann")
    + '''
import anyio

from nekro_core.api import timer
from nekro_core.api.plugin import ToolFailure
from nekro_core.api.signal import MsgSignal

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "shake", "Roll dice.")
async def shake(_ctx: AgentCtx, count: int = 1) -> list[int]:
    """Roll dice and post the numbers.

    Args:
        count: How many.
    """
    if count > 9:
        raise ToolFailure(f"{count} dice do not fit into the cup")
    await _ctx.send_text(" + ".join(["4"] * count))
    return [4] * count


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "rules", "Read the rules.")
async def rules(_ctx: AgentCtx) -> str:
    """Read the rules of the game."""
    return "six wins"


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "note", "Take a note.")
async def note(_ctx: AgentCtx, text: str) -> str:
    """Take a note."""
    return f"noted {text}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "remind", "Set a timer.")
async def remind(_ctx: AgentCtx, due: int) -> bool:
    """Set a timer."""
    return await timer.set_timer(_ctx.chat_key, due, "tea")


@plugin.mount_command("stir", "Stir, and take one's time.")
async def stir(context) -> str:
    await anyio.sleep(0.3)
    return "stirred"


@plugin.mount_on_user_message()
async def quiet(_ctx: AgentCtx, message) -> MsgSignal:
    if message.text == "hm":
        await anyio.sleep(0.3)
        await _ctx.send_text("hm!")
        return MsgSignal.BLOCK_TRIGGER
    return MsgSignal.BLOCK_TRIGGER if message.text == "psst" else MsgSignal.CONTINUE
'''
)


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    (tmp_path / "cup.py").write_text(DICE)
    async with Bot.open(tmp_path / "data", tmp_path / "cup.py") as running:
        yield running


@pytest.mark.jail
async def test_a_conversation_can_be_tested(bot: Bot) -> None:
    chat = bot.chat()
    assert await chat.ask("roll two", code="shake(count=2)") == ["4 + 4"]
    assert await chat.ask("hello", reply="Hello, Lin!") == ["Hello, Lin!"]
    assert await chat.ask(
        "what are the rules?", code=["rules()", "send_channel_message('six wins, they say')"]
    ) == ["six wins, they say"]
    assert "six wins" in bot.prompt
    assert chat.texts == ["4 + 4", "Hello, Lin!", "six wins, they say"]
    assert bot.chat("group_30003").sent == []
    assert await chat.ask("note milk", code="note('milk')\nshake()") == ["4"]
    assert "system: noted milk" in "\n".join(await chat.record())

    with pytest.raises(AssertionError, match=r"10 dice do not fit into the cup"):
        await chat.ask("ten!", code="shake(count=10)")
    with pytest.raises(AssertionError, match="1 replies were not asked for"):
        await chat.ask("two", code=["shake()", "shake()"])
    assert await chat.say("psst", quiet_s=0.2) == []
    with pytest.raises(AssertionError, match="'hello' woke the model"):
        await chat.say("hello", quiet_s=0.2)


async def test_say_waits_until_the_bot_is_done(bot: Bot) -> None:
    """On a slow machine the bot may be silent for longer than ``quiet_s`` before it is done."""
    assert await bot.chat().say("/stir", quiet_s=0.02) == ["stirred"]
    assert await bot.chat().say("hm", quiet_s=0.02) == ["hm!"]


async def test_a_test_can_call_single_tools(bot: Bot) -> None:
    assert await bot.call("shake", count=3) == [4, 4, 4]
    assert bot.chat().texts == ["4 + 4 + 4"]
    assert await bot.call("rules") == "six wins"
    with pytest.raises(ToolFailure, match="10 dice do not fit"):
        await bot.call("shake", 10)
    with pytest.raises(ToolFailure, match="expected int"):
        await bot.call("shake", count="many")
    with pytest.raises(LookupError, match=r"no tool 'shuffle'.*shake"):
        await bot.call("shuffle")
    assert [tool.name for tool in bot.info.tools] == ["shake", "rules", "note", "remind"]
    assert bot.module.plugin is bot.plugin


async def test_an_edited_plugin_is_loaded_again(bot: Bot, tmp_path: Path) -> None:
    (tmp_path / "cup.py").write_text(DICE.replace('"4"', '"5"'))
    await bot.reload()
    await bot.call("shake")
    assert bot.chat().texts == ["5"]
    (tmp_path / "cup.py").write_text("def broken(:")
    with pytest.raises(PluginNotLoaded, match=r"cup\.py:1: SyntaxError"):
        await bot.reload()


async def test_advancing_the_clock_makes_a_timer_due(bot: Bot) -> None:
    chat = bot.chat()
    due = int(bot.clock.wall()) + 3600
    assert await bot.call("remind", due=due)
    bot.foresee(reply="Your tea is ready.")
    bot.clock.advance(3700)
    assert await chat.gets(1) == ["Your tea is ready."]
    assert "tea" in bot.prompt


async def test_the_error_for_a_broken_plugin_says_why_it_is_broken(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_this_name")
    with pytest.raises(PluginNotLoaded, match=r"bad\.py:1: .*nothing_of_this_name"):
        async with Bot.open(tmp_path / "data", tmp_path / "bad.py"):
            pass


async def test_a_missing_package_is_named_and_not_installed(tmp_path: Path) -> None:
    (tmp_path / "cup.py").write_text(
        '# /// script\n# dependencies = ["nk-nowhere>=1", "httpx"]\n# ///\n' + DICE
    )
    with pytest.raises(PluginNotLoaded, match=r"is not here: pip install 'nk-nowhere>=1'$"):
        async with Bot.open(tmp_path / "data", tmp_path / "cup.py"):
            pass


def test_the_clock_can_only_be_moved_forward() -> None:
    clock = FakeClock()
    assert abs(clock.now - BEGINNING) < timedelta(seconds=5)
    clock.advance(timedelta(days=2))
    assert clock.monotonic() > 2 * 86400
    clock.set(BEGINNING + timedelta(days=3))
    assert abs(clock.now - BEGINNING - timedelta(days=3)) < timedelta(seconds=1)
    with pytest.raises(ValueError, match="goes forward"):
        clock.set(BEGINNING)
