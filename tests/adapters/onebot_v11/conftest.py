"""Each test gets a new bot, and a peer that is connected to it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.onebot_v11.running import Bot, running
from tests.peers.onebot_v11 import OneBotPeer


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    async with running(tmp_path) as bot:
        yield bot


@pytest.fixture
async def peer(bot: Bot) -> AsyncIterator[OneBotPeer]:
    async with bot.peer() as peer:
        await peer.wait_connected()
        await bot.hear_from()
        yield peer
