"""Somebody writes, the bot answers: whole turns, with a real box and a scripted model."""

from pathlib import Path

import anyio

from nekro_core.llm.scripted import ScriptedModel
from nekro_core.sandbox.pool import BoxPool
from tests.agent.bot import fence, running_bot


async def test_a_message_becomes_code_and_its_send_comes_back(folder: Path, boxes: BoxPool) -> None:
    model = ScriptedModel([fence("send_channel_message('hello ' + str(6 * 7))")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("hi") == ["hello 42"]
        turn = await bot.last_turn()
        assert turn.stop == "finished"
        (run,) = await bot.store.runs.of_turn(turn.turn_id)
        assert run.code.strip() == "send_channel_message('hello ' + str(6 * 7))"
        assert run.stop == "finished"
