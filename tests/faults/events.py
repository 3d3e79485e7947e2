"""Lets a platform send its events twice and out of order."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.peers.onebot_v11 import OneBotPeer


@asynccontextmanager
async def scrambled(peer: OneBotPeer, chance: random.Random) -> AsyncIterator[None]:
    """Hold back the events of this block. At its end send them shuffled, and half of them twice."""
    held: list[dict[str, Any]] = []
    emit = peer.emit

    async def hold(frame: dict[str, Any]) -> None:
        held.append(frame)

    peer.emit = hold  # type: ignore[method-assign]
    try:
        yield
    finally:
        peer.emit = emit  # type: ignore[method-assign]
    again = chance.sample(held, len(held) // 2)
    events = [*held, *again]
    chance.shuffle(events)
    for frame in events:
        await emit(frame)
