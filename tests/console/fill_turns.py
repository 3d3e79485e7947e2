"""Fills a folder with turns: a small bot with a scripted model answers some messages there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from nekro_core.chat import Delivery, DeliveryState, Receipt
from nekro_core.llm.model import RequestRejected
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.agent.bot import GROUP, Bot, answer, fence, running_bot
from tests.agent.conftest import BoxCache

EVIL = "<img src=x onerror=alert(1)>"


async def roll(_ctx: AgentCtx, sides: int) -> int:
    """Roll a dice.

    Args:
        sides: How many sides it has.
    """
    return sides // 2


@asynccontextmanager
async def _boxes() -> AsyncIterator[BoxCache]:
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(packages=False), tasks)
        yield BoxCache(backend)
        await backend.aclose()
        tasks.cancel_scope.cancel()


async def fill_turns(folder: Path) -> None:
    """Let the bot answer, fail, and send a message that the platform refuses."""
    code = "face = roll(20)\nprint(face)\nsend_channel_message(f'You rolled {face}.')"
    replies = [
        answer("Hello Lin!"),
        fence(code),
        RequestRejected("the key is not valid"),
        fence("1 / 0"),
        answer("That was a mistake of mine."),
        answer("Nobody will read this."),
        "Nor this.",
    ]
    async with (
        _boxes() as boxes,
        running_bot(folder, boxes, ScriptedModel(replies), tools=[roll]) as bot,
    ):
        await bot.ask("hello there", user="lin")
        await bot.ask("roll a 20-sided dice", user="lin")
        await bot.ask("what is new?", user="lin")
        await bot.ask(EVIL, GROUP, to_bot=True, user="ann")
        await _refused(bot)


async def _refused(bot: Bot) -> None:
    async def refuse(_: Delivery) -> Receipt:
        return Receipt(state=DeliveryState.REJECTED, reason="the bot was muted in this group")

    bot.adapter.behaviour = refuse
    await bot.ask("are you muted?", GROUP, to_bot=True, user="ann")
