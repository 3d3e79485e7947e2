"""The bot is killed at any await between a question and its answer."""

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from tests.e2e.bot_process import running_bot
from tests.e2e.forked_bots import BotForker, bot_forker
from tests.e2e.read_database import StoreLook
from tests.e2e.whole_bot import TOKEN, fence, model_settings
from tests.faults.steps import Steps
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.ports import free_port
from tests.peers.scripted_model import ScriptedModelServer

KILLS = int(os.environ.get("KILLS", "6"))
"""How many of about 190 steps are tried. ``KILLS=180 pytest -m long tests/faults/test_steps.py``
tries nearly all."""


@pytest.fixture(scope="module")
async def bots() -> AsyncIterator[BotForker]:
    async with bot_forker() as bots:
        yield bots


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_wherever_the_bot_is_killed_the_question_is_answered_once(
    tmp_path: Path, bots: BotForker
) -> None:
    steps = Steps(tmp_path)
    environment = {**steps.environment, "PORT": str(free_port())}
    async with (
        ScriptedModelServer(lambda _: fence("send_channel_message('here')")) as model,
        running_bot(tmp_path, bot_forker=bots, **model_settings(model), **environment) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
        StoreLook(bot.data) as look,
    ):

        def answers(group: int) -> int:
            return sum(call.params.get("group_id") == group for call in peer.sends)

        await peer.wait_connected()
        before = steps.taken
        await peer.say_in_group(1, 10001, "how many steps is that?", at_me=True)
        await peer.until(lambda: answers(1) == 1)
        await anyio.sleep(0.5)
        whole = steps.taken - before
        assert whole > 50
        print(f"{whole} steps from a question to the rest after its answer")

        for offset in sorted(random.Random(5).sample(range(1, whole), KILLS)):
            group = 1000 + offset
            steps.kill_at(steps.taken + offset)
            await peer.say_in_group(group, 10001, "hello", at_me=True)
            assert bot.process is not None
            with anyio.move_on_after(5):
                await bot.process.wait()
            steps.kill_at(0)
            await bot.kill()
            await bot.start()
            with anyio.move_on_after(20):
                await peer.until(lambda group=group: answers(group) == 1, 60)
            unknown = await look.column(
                "SELECT 1 FROM deliveries WHERE state = 'unknown' "
                f"AND chat_key LIKE '%group_{group}'"
            )
            assert answers(group) == 1 or (unknown and not answers(group)), f"at step {offset}"
            with anyio.fail_after(30):  # a turn that was killed too often is not resumed
                while await look.column("SELECT 1 FROM turns WHERE running_chat IS NOT NULL"):
                    await anyio.sleep(0.02)
        await anyio.sleep(1)
        twice = [c for c in peer.sends if answers(c.params["group_id"]) != 1]
        assert not twice
