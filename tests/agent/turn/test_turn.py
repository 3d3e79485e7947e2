"""The tests check the steps of a turn, and that its run is stored before a call is carried out."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import anyio

from nekro_core.llm.model import ModelProfile, PromptMessage, TextPart
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy.settings import TriggerSettings
from tests.agent.bot import GROUP, LIN, Bot, answer, running_bot, text_of, until
from tests.agent.conftest import BoxCache
from tests.agent.native import NOTHING, TOOLS_MODE, call, calls
from tests.agent.session.test_store_trouble import unwritable

_HELD_S = 0.5
"""Seconds for which the store cannot write a run. A call from a box arrives within 0.02 s."""


def text_of_message(message: PromptMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


class RunReader:
    """A tool that looks in the database file whether the run that calls it is stored."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "nekro.sqlite3"
        self.was_stored: list[bool] = []

    async def act(self, _ctx: AgentCtx) -> str:
        """Record whether the run is stored."""
        with closing(sqlite3.connect(self._path)) as database:
            query = "SELECT count(*) FROM runs WHERE run_id = ?"
            ((rows,),) = database.execute(query, (_ctx.run_id,))
        self.was_stored.append(bool(rows))
        return "done"


async def test_no_call_of_code_is_carried_out_before_its_run_is_stored(
    folder: Path, boxes: BoxCache
) -> None:
    """The code starts at once. Its first call arrives while the store cannot write."""
    reader, bots, order = RunReader(folder), list[Bot](), list[str]()

    async def reply() -> AsyncIterator[str]:
        (bot,) = bots
        while not await bot.turns():
            await anyio.sleep(0.005)
        with unwritable(folder):
            yield "```python\nact()\n"
            await anyio.sleep(_HELD_S)
            order.append(f"{len(reader.was_stored)} calls while nothing could be stored")
        await until(lambda: bool(reader.was_stored))
        order.append("a call while the model still wrote")
        yield "send_channel_message('well')\n```"

    async with running_bot(folder, boxes, ScriptedModel([reply()]), tools=[reader.act]) as bot:
        bots.append(bot)
        assert await bot.ask("go") == ["well"]
    assert reader.was_stored == [True]
    assert order == [
        "0 calls while nothing could be stored",
        "a call while the model still wrote",
    ]


async def test_no_native_call_is_carried_out_before_its_run_is_stored(
    folder: Path, boxes: BoxCache
) -> None:
    reader = RunReader(folder)
    model = ScriptedModel([calls(call("act", "1"), call("act", "2")), NOTHING, "well"])
    async with running_bot(folder, boxes, model, tools=[reader.act], settings=TOOLS_MODE) as bot:
        assert await bot.ask("go") == ["well"]
    assert reader.was_stored == [True, True]


async def test_a_step_is_prepared_again_if_the_history_has_changed(
    folder: Path, boxes: BoxCache
) -> None:
    """A system line does not wake the session. If the turn did not check the history, it would use
    the step that was prepared before the line."""
    model = ScriptedModel([answer("well")])
    trigger = TriggerSettings(debounce_s=0.5)
    async with running_bot(folder, boxes, model, trigger=trigger) as bot:

        async def note() -> None:
            assert model.requests == []
            await bot.journal.note(LIN, "The door opened.")

        bot.plugins.asked.append(note)
        assert await bot.ask("go") == ["well"]
        assert "The door opened." in bot.prompt()


async def test_a_small_model_sees_each_message_of_this_turn_once(
    folder: Path, boxes: BoxCache
) -> None:
    profile = ModelProfile(name="small", grammar=True, prefers_examples=True, context_tokens=4096)
    code = "send_channel_message('the answer is nine')\nprint('more')"
    model = ScriptedModel([code, "pass"], profile=profile)
    async with running_bot(folder, boxes, model) as bot:
        await bot.say("what a day", GROUP, user="mo")
        asked = await bot.ask("what is the answer?", GROUP, to_bot=True)
        assert asked == ["the answer is nine"]
        (shown, *others) = [
            text_of_message(message)
            for message in model.requests[1].messages
            if message.role == "assistant" and "the answer is nine" in text_of_message(message)
        ]
        assert (shown, others) == (code, [])
        assert "what is the answer?" in text_of(model.requests[1])
