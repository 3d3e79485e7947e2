"""A bot is killed while timers of many chats are due. Each timer is answered once."""

import json
import random
import sqlite3
from pathlib import Path

import anyio
import pytest

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.whole_bot import TOKEN, fence, model_settings
from tests.peers.onebot_v11 import Late, OneBotPeer
from tests.peers.ports import free_port
from tests.peers.scripted_model import Asked, ScriptedModelServer

CHATS = 20
DUE_S = 6.0


def reply(asked: Asked) -> str:
    """The model's reply: it sets a timer when a person writes, and sends "ding" when one is due."""
    if "is due: ding" in asked.last_user_text:
        return fence('send_channel_message("ding")')
    return fence(f'set_timer("ding", in_minutes={DUE_S / 60})\nsend_channel_message("set")')


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_a_killed_bot_answers_each_timer_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with (
        ScriptedModelServer(reply) as model,
        running_bot(tmp_path, **model_settings(model), PORT=str(free_port())) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()
        peer.answer("send", *[Late(0.05)] * 1000)
        for chat in range(CHATS):
            await peer.say_in_group(50000 + chat, 10001, "in a moment", at_me=True)
            await anyio.sleep(0.05)
        await peer.until(lambda: len(said(peer, "set")) == CHATS, 60)
        await peer.until(lambda: len(said(peer, "ding")) > chance.randrange(3), 30)
        await anyio.sleep(chance.random())
        before = len(said(peer, "ding"))
        await bot.kill()
        in_flight = len(rows(bot, "SELECT 1 FROM deliveries WHERE state = 'sending'"))
        await anyio.sleep(chance.random() * DUE_S)
        await bot.start()
        with anyio.move_on_after(60):
            while len(set(said(peer, "ding"))) + unknown(bot) < CHATS:
                await anyio.sleep(0.1)
        await anyio.sleep(3)
        counts = {chat: said(peer, "ding").count(50000 + chat) for chat in range(CHATS)}
        lost = [chat for chat, count in counts.items() if count == 0]
        assert max(counts.values()) == 1, counts
        assert len(lost) <= unknown(bot) <= in_flight + 1, (counts, bot.log[-6000:])
        print(f"killed after {before} of {CHATS}, {unknown(bot)} of unknown outcome")


def said(peer: OneBotPeer, text: str) -> list[int]:
    """The groups to which this text was sent, in order."""
    return [int(call.params["group_id"]) for call in peer.sends if call.text == text]


def unknown(bot: BotProcess) -> int:
    found = rows(bot, "SELECT segments FROM deliveries WHERE state = 'unknown'")
    return sum("ding" in json.dumps(each) for each in found)


def rows(bot: BotProcess, query: str) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(f"file:{bot.data / 'nekro.sqlite3'}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
