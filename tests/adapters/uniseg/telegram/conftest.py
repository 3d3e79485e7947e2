from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.uniseg.stock import Bench
from tests.adapters.uniseg.telegram.running import bot_with_peer
from tests.peers.telegram import TelegramPeer


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Bench, TelegramPeer]]:
    async with bot_with_peer(tmp_path) as both:
        yield both


@pytest.fixture
def bot(both: tuple[Bench, TelegramPeer]) -> Bench:
    return both[0]


@pytest.fixture
def peer(both: tuple[Bench, TelegramPeer]) -> TelegramPeer:
    return both[1]
