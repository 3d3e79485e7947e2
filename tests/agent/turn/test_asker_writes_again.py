"""The person who asked corrects the question while the model writes the answer."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import Mention, Text
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy.settings import TurnSettings
from tests.agent.bot import GROUP, answer, fence, running_bot, text_of, until
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE, say
from tests.delivery.fakes import message


async def forever(*chunks: str) -> AsyncIterator[str]:
    """A reply that begins with these chunks and never ends."""
    for chunk in chunks:
        yield chunk
    await anyio.sleep_forever()


@pytest.mark.parametrize("began", [[], ["```python\n"], ["```python\nsend_channel_message('A"]])
async def test_a_correction_drops_the_request_and_the_model_is_asked_again(
    folder: Path, boxes: BoxCache, began: list[str]
) -> None:
    model = ScriptedModel([forever(*began), answer("A card for Hannah")])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            await bot.say("a card for Anna, please")
            await until(lambda: model.open_streams == 1)
            await bot.say("not Anna, Hannah!")
        assert bot.said() == ["A card for Hannah"]
        assert "> a card for Anna, please" in bot.prompt()
        assert "> not Anna, Hannah!" in bot.prompt()
        assert model.open_streams == 0
        (turn,) = await bot.turns()
        assert turn.stop == "finished"
        dropped, used = await bot.store.turns.steps(turn.turn_id)
        assert (dropped.reply, dropped.tail) == ("".join(began), "".join(began))
        assert dropped.prompt_tokens > 0  # the provider has read the prompt
        assert used.reply == answer("A card for Hannah")
        first, _ = await bot.store.prompts.of_turn(turn.turn_id)
        assert first.error.startswith("dropped: the asker wrote again")


async def test_a_correction_in_tool_mode_drops_the_request(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([ScriptedAnswer(chunks=forever()), say("A card for Hannah")])
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        async with bot.turn():
            await bot.say("a card for Anna, please")
            await until(lambda: model.open_streams == 1)
            await bot.say("not Anna, Hannah!")
        assert bot.said() == ["A card for Hannah"]
        assert len(await bot.turns()) == 1


async def test_after_the_code_has_begun_a_correction_is_shown_to_the_next_step(
    folder: Path, boxes: BoxCache
) -> None:
    corrected = anyio.Event()

    async def reply() -> AsyncIterator[str]:
        yield "```python\nsend_channel_message('Drawing for Anna')\n"
        await corrected.wait()
        yield "print('drawn')\n```"

    model = ScriptedModel([reply(), answer("Sorry: Hannah")])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            await bot.say("a card for Anna, please")
            await until(lambda: bot.said() == ["Drawing for Anna"])
            await bot.say("not Anna, Hannah!")
            corrected.set()
        assert bot.said() == ["Drawing for Anna", "Sorry: Hannah"]
        assert len(model.requests) == 2
        assert "[chat] arrived meanwhile:" in bot.prompt()


async def test_a_correction_in_a_later_step_keeps_the_variables(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [fence("x = 41\nprint(x)"), forever(), fence("send_channel_message(str(x + 2))")]
    )
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            await bot.say("add one")
            await until(lambda: len(model.requests) == 2)
            await bot.say("no, two")
        assert bot.said() == ["43"]


async def test_a_line_of_another_person_waits_for_the_next_turn(
    folder: Path, boxes: BoxCache
) -> None:
    over = anyio.Event()

    async def reply() -> AsyncIterator[str]:
        await over.wait()
        yield answer("for Lin")

    model = ScriptedModel([reply(), answer("for Ana")])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn(GROUP):
            await bot.say("Nekro, a card", GROUP)
            await until(lambda: model.open_streams == 1)
            await bot.say("Nekro, one for me too", GROUP, user="ana")
            over.set()
        await until(lambda: bot.said(GROUP) == ["for Lin", "for Ana"])
        assert len(model.requests) == 2


@pytest.mark.parametrize("what", ["to another", "taken by a plugin", "by setting"])
async def test_a_line_that_corrects_nothing_does_not_restart_the_request(
    folder: Path, boxes: BoxCache, what: str
) -> None:
    over = anyio.Event()

    async def reply() -> AsyncIterator[str]:
        await over.wait()
        yield answer("a card")

    model = ScriptedModel(lambda _: reply())
    queue = AgentSettings(turn=TurnSettings(new_line="queue"))
    settings = queue if what == "by setting" else None
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        if what == "taken by a plugin":
            bot.plugins.signal = lambda said: (
                MsgSignal.BLOCK_TRIGGER if "later" in said.segments[-1].text else MsgSignal.CONTINUE
            )
        segments = (Text("later"),)
        if what == "to another":
            segments = (Mention("ana"), Text("later"))
        async with bot.turn(GROUP):
            await bot.say("Nekro, a card", GROUP)
            await until(lambda: model.open_streams == 1)
            await bot.accept(message(GROUP, segments=segments, message_id="m2"))
            await until(
                lambda: not bot.sessions._sessions[GROUP]._backlog.fresh or what == "by setting"
            )
            await anyio.sleep(0.05)
            over.set()
        assert len(model.requests) == 1
        assert bot.said(GROUP) == ["a card"]


async def test_a_person_who_corrects_again_and_again_is_answered_after_five_restarts(
    folder: Path, boxes: BoxCache
) -> None:
    over = anyio.Event()

    async def reply() -> AsyncIterator[str]:
        await over.wait()
        yield answer("at last")

    model = ScriptedModel(lambda _: reply())
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            await bot.say("line 1")
            for number in range(2, 8):
                await until(lambda count=number: len(model.requests) == count - 1)  # type: ignore[misc]
                await until(lambda: model.open_streams == 1)
                await bot.say(f"line {number}")
            await until(lambda: len(model.requests) == 6)
            await anyio.sleep(0.05)
            assert len(model.requests) == 6
            over.set()
        assert bot.said()[0] == "at last"
        assert "> line 6" in text_of(model.requests[5])
        (first, *_) = await bot.turns()
        assert len(await bot.store.turns.steps(first.turn_id)) == 6
