"""Reminders in a whole bot: the model's code sets a timer, and the timer later wakes the agent."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.testing.bot import Bot
from nekro_core.tools.outcome import ToolFailure


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    settings = {"nekro_agent": AgentSettings(timezone="Asia/Tokyo")}
    async with Bot.open(tmp_path, settings=settings) as opened:
        yield opened


async def test_a_reminder_wakes_the_agent(bot: Bot) -> None:
    chat = bot.chat("group_30003")
    code = (
        'set_timer("Remind Lin of the cake", in_minutes=25)\n'
        'send_channel_message("I will remind you.")'
    )
    assert await chat.ask("Nekro, the cake needs 25 minutes", code=code) == ["I will remind you."]
    assert await chat.call("list_timers")
    bot.foresee(code='send_channel_message("Lin, the cake!")')
    bot.clock.advance(25 * 60 + 1)
    assert await chat.gets(2) == ["I will remind you.", "Lin, the cake!"]
    assert "> A timer that was set in this chat is due: Remind Lin of the cake" in bot.prompt
    assert await chat.call("list_timers") == []
    assert await bot.chat("group_40004").call("list_timers") == []


async def test_a_recurring_timer_is_created_and_paused(bot: Bot) -> None:
    chat = bot.chat()
    line = await chat.call(
        "create_recurring_timer", "greet everybody", "30 7 * * *", days="mon_fri", title="morning"
    )
    job, text = line[1:13], line[14:]
    assert text.startswith(" morning (30 7 * * * Asia/Tokyo, mon_fri, active), next at ")
    assert text.endswith(" 07:30: greet everybody")
    assert "paused" in await chat.call("change_timer", job, "pause")
    assert await chat.call("list_timers") == [await chat.call("change_timer", job, "pause")]
    assert "07:30" in await chat.call("change_timer", f"[{job}] morning", "resume")
    bot.foresee(reply="Good morning!")
    bot.clock.advance(7 * 86_400)
    assert (await chat.gets(1))[0] == "Good morning!"
    # Another chat can neither list nor cancel the timer.
    other = bot.chat("private_mei")
    for action in ("cancel", "pause"):
        with pytest.raises(ToolFailure):
            await other.call("change_timer", job, action)
    assert await chat.call("change_timer", job) == f"{job} is cancelled"
    assert await chat.call("list_timers") == []


async def test_wrong_arguments_of_the_timer_tools_are_refused_with_a_reason(bot: Bot) -> None:
    chat = bot.chat()
    for arguments, complaint in (
        ({}, "either at or in_minutes"),
        ({"at": "2026-01-01 07:30", "in_minutes": 3}, "either at or in_minutes"),
        ({"at": "tomorrow"}, "expected a form such as"),
        ({"at": "2001-01-01 07:30"}, "that time is over; it is "),
        ({"in_minutes": -3}, "that time is over"),
        ({"in_minutes": 1e300}, "set_timer: no"),
    ):
        with pytest.raises(ToolFailure, match=complaint):
            await chat.call("set_timer", "x", **arguments)
    with pytest.raises(ToolFailure, match="too many"):
        await chat.call("set_timer", " ", in_minutes=3)
    for cron, days, complaint in (
        ("every day", "none", "expected five fields"),
        ("0 9 * * *", "sundays", "expected one of none"),
    ):
        with pytest.raises(ToolFailure, match=complaint):
            await chat.call("create_recurring_timer", "x", cron, days=days)
    with pytest.raises(ToolFailure, match="expected cancel, pause or resume"):
        await chat.call("change_timer", "x", "explode")
