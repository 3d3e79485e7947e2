"""Runs the adapter in a real web server on a free port of this machine."""

import itertools
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from nonebot.config import Config, Env
from nonebot.drivers.fastapi import Driver

from adapters.onebot_v11 import SERVER_OPTIONS, OneBotV11Adapter, create
from nekro_core.api.adapter import Host
from nekro_core.api.chat import ChatKey, Delivery, Receipt, Segment, Text
from nekro_core.testing.memory_host import MemoryHost
from tests.peers.onebot_v11 import OneBotPeer

TOKEN = "a token for tests"
GROUP = ChatKey.parse("onebot_v11-group_30003")
FRIEND = ChatKey.parse("onebot_v11-private_10001")


@dataclass
class Bot:
    host: MemoryHost
    adapter: OneBotV11Adapter
    driver: Driver
    port: int
    deliveries: "itertools.count[int]"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/onebot/v11/ws"

    def peer(self, self_id: str = "20002", **options: Any) -> OneBotPeer:
        """Make a fake OneBot implementation, which will connect to this bot."""
        return OneBotPeer(**{"self_id": self_id, "url": self.url, "token": TOKEN, **options})

    async def send(self, chat_key: ChatKey, *segments: Segment | str) -> Receipt:
        parts = tuple(Text(part) if isinstance(part, str) else part for part in segments)
        return await self.adapter.send(
            Delivery(delivery_id=f"d{next(self.deliveries)}", chat_key=chat_key, segments=parts)
        )

    async def hear_from(self, account: str = "20002") -> None:
        """Wait until the account is bound to its instance."""
        with anyio.fail_after(30):
            while account not in await self.adapter.own_accounts(GROUP):
                await anyio.sleep(0.005)
            await self.host.instance_of("onebot_v11", account)

    async def gone(self, account: str) -> None:
        """Wait until the bot has noticed that the account's connection ended."""
        with anyio.fail_after(30):
            while account in self.driver.bots:
                await anyio.sleep(0.005)


def new_driver() -> Driver:
    """Make a separate driver. `nonebot.init` makes one driver for a whole process."""
    return Driver(Env(environment="test"), Config(_env_file=None))


class Server(uvicorn.Server):
    """A server that ends at once. uvicorn itself checks only every 0.1 s whether it should end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = anyio.Event()

    async def main_loop(self) -> None:
        await self.ending.wait()


@asynccontextmanager
async def serving(driver: Driver, **options: Any) -> AsyncIterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            driver.server_app,
            log_config=None,
            timeout_graceful_shutdown=1,
            **{**SERVER_OPTIONS, **options},
        )
        server = Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            while not server.started:
                await anyio.sleep(0.002)
            yield listener.getsockname()[1]
            server.ending.set()


@asynccontextmanager
async def running(folder: Path, host: Host | None = None, **settings: Any) -> AsyncIterator[Bot]:
    """Start the adapter and its web server."""
    host = host or MemoryHost(folder, {"onebot_access_token": TOKEN, **settings})
    driver = new_driver()
    adapter = create(host, driver, reconnect_s=0.2)
    async with serving(driver) as port:
        await adapter.start()
        try:
            yield Bot(host, adapter, driver, port, itertools.count(1))
        finally:
            await adapter.aclose()


@asynccontextmanager
async def bot_with_peer(
    folder: Path, direction: str, **settings: Any
) -> AsyncIterator[tuple[Bot, OneBotPeer]]:
    """Start a bot and a peer that is connected to it. ``direction`` says whether the bot or the
    peer opens the connection."""
    if direction == "reverse":
        async with running(folder, **settings) as bot, bot.peer() as peer:
            await peer.wait_connected()
            await bot.hear_from(peer.self_id)
            yield bot, peer
    else:
        async with (
            OneBotPeer(token=TOKEN) as peer,
            running(folder, onebot_v11_ws_urls=json.dumps([peer.address]), **settings) as bot,
        ):
            await peer.wait_connected()
            await bot.hear_from(peer.self_id)
            yield bot, peer
