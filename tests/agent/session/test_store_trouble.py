"""The store cannot write for a while. When it can write again, the bot answers every question
without a restart."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest

from nekro_core.delivery.activity import Working
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.store import StoreSettings
from tests.agent.bot import LIN, LONG, Bot, fence, running_bot
from tests.agent.conftest import BoxCache

QUICK = StoreSettings(busy_timeout_s=0.05)


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Lock the database as another program would. The store handles this as it handles a full
    disk."""
    path = folder / "nekro.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def until_said(bot: Bot, words: str) -> None:
    with anyio.fail_after(30):
        while words not in "".join(bot.said()):
            await anyio.sleep(0.01)
    await bot.settled()


async def test_a_turn_that_could_not_be_stored_begins_when_the_store_can_write(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(lambda _: fence("send_channel_message('here I am')"))
    async with running_bot(folder, boxes, model, trigger=LONG, store_settings=QUICK) as bot:
        await bot.say("are you there?")
        with unwritable(folder):
            async with bot.turn():
                bot.typed()
            assert await bot.turns() == []
            with anyio.move_on_after(2.5):
                await until_said(bot, "here I am")
            assert len(model.requests) <= 1, "each further try would cost a request to the model"
            assert bot.said() == []
        await until_said(bot, "here I am")
        assert bot.said() == ["here I am"]
        assert [turn.stop for turn in await bot.turns()] == ["finished"]
        assert await bot.ask("and now?") == ["here I am"]


@pytest.mark.long
async def test_after_a_turn_whose_end_could_not_be_stored_the_next_turn_runs(
    folder: Path, boxes: BoxCache
) -> None:
    held = unwritable(folder)

    async def take_the_disk(_ctx: AgentCtx, text: str) -> str:
        """Make the store unwritable.

        Args:
            text: The value to return.
        """
        held.__enter__()
        return text

    code = "print(take_the_disk('x'))\nsend_channel_message('never')"
    model = ScriptedModel(
        lambda _: fence(code if len(model.requests) == 1 else "send_channel_message('again')")
    )
    async with running_bot(
        folder, boxes, model, tools=[take_the_disk], store_settings=QUICK
    ) as bot:
        async with bot.activity.watch(LIN) as activities:
            await bot.say("do it")
            with anyio.move_on_after(2):
                async for activity in activities:
                    assert activity != Working(LIN, busy=False), (
                        "the turn cannot be closed before its end is stored"
                    )
        held.__exit__(None, None, None)
        await until_said(bot, "Something went wrong inside me")
        assert (await bot.last_turn()).stop == "internal"
        assert await bot.ask("and now?") == ["again"]
