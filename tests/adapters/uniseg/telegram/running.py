"""Runs the adapter against the fake Bot API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nekro_core.api.chat import ChatKey
from tests.adapters.uniseg.stock import Bench, bench
from tests.peers.telegram import TelegramPeer

GROUP_ID = -1001
GROUP = ChatKey.parse(f"telegram-group_{GROUP_ID}")
ACCOUNT = "20002"


@asynccontextmanager
async def bot_with_peer(
    folder: Path, *, send_s: float | None = None, **options: Any
) -> AsyncIterator[tuple[Bench, TelegramPeer]]:
    """Start the adapter with a fake Bot API."""
    async with TelegramPeer(**options) as peer:
        peer.account.chat(GROUP_ID)
        async with running(folder, peer, send_s=send_s) as bot:
            yield bot, peer


@asynccontextmanager
async def running(
    folder: Path, peer: TelegramPeer, *, send_s: float | None = None
) -> AsyncIterator[Bench]:
    """Start the adapter; wait until it polls for updates and its account is bound."""
    before = len(peer.polls)
    info = {"token": peer.token, "api_server": peer.address}
    async with bench(folder, "telegram", telegram_bots=[info]) as bot:
        if send_s is not None:
            bot.adapter._send_s = send_s
        await peer.until(lambda: len(peer.polls) > before)
        await bot.host.instance_of("telegram", ACCOUNT)
        yield bot
