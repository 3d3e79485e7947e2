"""Runs the adapter against a real Synapse, through a proxy that records and can fail."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from nonebot.config import Config, Env
from nonebot.drivers import Driver
from nonebot.drivers.none import Driver as NoneDriver

from adapters.matrix.adapter import MatrixAdapter
from adapters.matrix.intake import HandOver
from adapters.matrix.settings import create
from nekro_core.api.adapter import accept_patiently
from nekro_core.api.chat import ChatKey, ChatKind, Delivery, Receipt, Segment, Text
from nekro_core.testing.memory_host import MemoryHost
from tests.peers.recording_proxy import RecordingProxy
from tests.peers.synapse import Person, Synapse

_numbers = itertools.count(1)


@asynccontextmanager
async def new_driver() -> AsyncIterator[Driver]:
    """Make a separate driver. `nonebot.init` makes one driver for a whole process."""
    driver = NoneDriver(Env(environment="test"), Config(_env_file=None))
    await driver._lifespan.startup()
    try:
        yield driver
    finally:
        await driver._lifespan.shutdown()


@dataclass
class Bot:
    """A bot with one account on the server. It stores messages and answers none."""

    host: MemoryHost
    adapter: MatrixAdapter
    proxy: RecordingProxy
    account: Person
    driver: Driver

    async def send(self, room: str, *segments: Segment | str, thread: str | None = None) -> Receipt:
        parts = tuple(Text(part) if isinstance(part, str) else part for part in segments)
        return await self.adapter.send(delivery(key_of(room, thread=thread), *parts))

    async def connected(self) -> None:
        """Wait until every account receives events."""
        with anyio.fail_after(30):
            accounts = self.adapter._accounts
            while len(self.proxy.of("GET", "/sync")) < len(accounts) or not all(
                each.server for each in accounts
            ):
                await anyio.sleep(0.02)


def key_of(room: str, *, thread: str | None = None, private: bool = False) -> ChatKey:
    kind = ChatKind.PRIVATE if private else ChatKind.GROUP
    return ChatKey("matrix", kind, room, thread)


def delivery(key: ChatKey, *segments: Segment) -> Delivery:
    return Delivery(delivery_id=f"d{next(_numbers)}-{id(key)}", chat_key=key, segments=segments)


def settings_for(address: str, *accounts: Person, **more: Any) -> dict[str, Any]:
    """Return the adapter's settings, as ``.env`` would have them."""
    entries = [{"homeserver": address, "access_token": each.token, **more} for each in accounts]
    return {"matrix_bots": json.dumps(entries)}


@asynccontextmanager
async def running(
    folder: Path,
    proxy: RecordingProxy,
    account: Person,
    host: MemoryHost | None = None,
    *,
    api_timeout: float = 10.0,
    hand_over: HandOver = accept_patiently,
    others: tuple[Person, ...] = (),
    **more: Any,
) -> AsyncIterator[Bot]:
    """Start the adapter. ``more`` is added to its entries of ``MATRIX_BOTS``."""
    folder.mkdir(exist_ok=True)
    settings = settings_for(proxy.address, account, *others, **more)
    settings["api_timeout"] = api_timeout
    host = host or MemoryHost(folder)
    host.settings = settings
    async with new_driver() as driver:
        adapter = create(host, driver)
        for each in adapter._accounts:
            each._pauses_s, each._hand_over = (0.1,), hand_over
        await adapter.start()
        try:
            yield Bot(host, adapter, proxy, account, driver)
        finally:
            await adapter.aclose()


async def people(server: Synapse, *names: str) -> list[Person]:
    """Make accounts whose names no other test uses."""
    number = next(_numbers)
    return [await server.person(f"{name}{number}") for name in names]
