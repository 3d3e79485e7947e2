"""The Satori adapter with a real server: lost connections and missed messages."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import nonebot
import pytest
from nonebot.config import Config, Env
from nonebot.drivers import Driver, combine_driver
from nonebot.drivers.fastapi import Driver as FastAPI
from nonebot.drivers.httpx import Mixin as Httpx
from nonebot.drivers.websockets import Mixin as WebSockets
from websockets.asyncio.server import ServerConnection, serve

from adapters.uniseg import factories
from nekro_core.api.adapter import (
    AccountStatus,
    ConnectionProblem,
    PlatformAccounts,
    SupportsAccounts,
    SupportsConfirmation,
    UncertainDelivery,
)
from nekro_core.api.chat import ChatKey, Delivery, DeliveryState, Image, Receipt, Text
from nekro_core.testing.memory_host import MemoryHost
from tests.peers.satori import SatoriPeer, missing
from tests.peers.telegram import PNG

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    # These warnings come from NoneBot's drivers.
    pytest.mark.filterwarnings("ignore:ConnectionClosed:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Setting per-request cookies:DeprecationWarning"),
]

GROUP = ChatKey.parse("satori-group_g1")


class Bot:
    def __init__(self, host: MemoryHost, adapter: object) -> None:
        self.host = host
        self.adapter: object = adapter

    async def send(self, text: str) -> Receipt:
        delivery = Delivery(delivery_id="d", chat_key=GROUP, segments=(Text(text),))
        return await self.adapter.send(delivery)  # type: ignore[attr-defined]


@asynccontextmanager
async def started(folder: Path, client: dict[str, Any], **options: Any) -> AsyncIterator[Bot]:
    """Start a bot with NoneBot's real drivers. NoneBot's adapter reads its settings from a global
    driver, so this function replaces that driver while the bot runs. ``options`` are not settings:
    they are set as attributes of NoneBot's adapter."""
    settings = {"satori_clients": [client]}
    made: type[Driver] = combine_driver(FastAPI, Httpx, WebSockets)
    driver = made(Env(environment="test"), Config(_env_file=None, **settings))
    host = MemoryHost(folder, {"nekro_platforms": ("satori",), **settings})
    known, nonebot._driver = nonebot._driver, driver
    try:
        adapter = factories(host.settings)["satori"](host, driver)
        for name, value in options.items():
            setattr(adapter._managed.adapter, name, value)  # type: ignore[attr-defined]
        async with driver._lifespan:
            await adapter.start()
            try:
                yield Bot(host, adapter)
            finally:
                await adapter.aclose()
    finally:
        nonebot._driver = known


@asynccontextmanager
async def running(folder: Path, peer: SatoriPeer) -> AsyncIterator[Bot]:
    """Start a bot and wait until it is connected."""
    before = peer.connections
    async with started(folder, peer.client) as bot:
        await peer.wait_connected(before + 1)
        yield bot


@asynccontextmanager
async def strange_server(
    behave: Callable[[ServerConnection], Awaitable[None]],
) -> AsyncIterator[tuple[dict[str, Any], list[Any]]]:
    """Run a server that reads the first frame of each connection and then calls ``behave``.

    Yields the settings for the adapter, and the list of the first frames.
    """
    identified: list[Any] = []

    async def serve_one(wire: ServerConnection) -> None:
        identified.append(json.loads(await wire.recv()))
        await behave(wire)

    async with serve(serve_one, "127.0.0.1", 0, close_timeout=0.2) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield {"host": "127.0.0.1", "port": port, "token": "t"}, identified


async def test_messages_sent_while_the_bot_is_disconnected_are_received_later(
    tmp_path: Path,
) -> None:
    async with SatoriPeer() as peer, running(tmp_path, peer) as bot:
        for number in range(3):
            await peer.say("g1", "ann", f"line {number}")
        await bot.host.received(3)
        await peer.hang_up()
        for number in range(3, 6):
            await peer.say("g1", "ann", f"line {number}")
        heard = await bot.host.received(6, limit_s=30)
        assert [message.text for message in heard] == [f"line {number}" for number in range(6)]
        assert (await bot.send("here again")).ok


async def test_messages_sent_while_the_bot_is_stopped_are_received_at_its_start(
    tmp_path: Path,
) -> None:
    async with SatoriPeer() as peer:
        async with running(tmp_path, peer) as bot:
            await peer.say("g1", "ann", "before")
            await bot.host.received(1)
            with anyio.fail_after(30):
                while not [*(tmp_path / "satori").glob("*.json")]:
                    await anyio.sleep(0.05)
        await peer.say("g1", "ann", "meanwhile")
        async with running(tmp_path, peer) as bot:
            assert (await bot.host.next_message(limit_s=30)).text == "meanwhile"
            await peer.say("g1", "ann", "after")
            assert (await bot.host.next_message()).text == "after"
        for path in (tmp_path / "satori").iterdir():
            assert peer.token not in path.name + path.read_text()


async def test_a_picture_with_a_satori_internal_link_is_fetched_through_the_satori_server(
    tmp_path: Path,
) -> None:
    async with SatoriPeer() as peer, running(tmp_path, peer) as bot:
        address = await peer.keep("files/cat.png", PNG, "image/png")
        await peer.raw("g1", "ann", f'<img src="{address}"/><img src="{address}x"/>')
        there, gone = (await bot.host.next_message()).segments
        assert isinstance(there, Image)
        assert isinstance(gone, Image)
        assert Path(there.media.path).read_bytes() == PNG
        assert gone.media.problem


async def test_the_servers_answer_decides_the_state_of_a_delivery(tmp_path: Path) -> None:
    async with SatoriPeer() as peer, running(tmp_path, peer) as bot:
        await peer.say("g1", "ann", "hello")
        await bot.host.received(1)
        await peer.refuse(status=403)
        assert (await bot.send("not allowed")).state is DeliveryState.REJECTED
        await peer.refuse(status=500)
        assert (await bot.send("who knows")).state is DeliveryState.UNKNOWN
        await peer.stop()
        with anyio.fail_after(30):
            while (await bot.send("nobody there")).state is not DeliveryState.PENDING:
                await anyio.sleep(0.05)
        before = peer.connections
        await peer.start()
        await peer.wait_connected(before + 1)
        assert (await _sent(bot)).ok


async def _sent(bot: Bot) -> Receipt:
    with anyio.fail_after(30):
        while (receipt := await bot.send("again")).state is DeliveryState.PENDING:
            await anyio.sleep(0.05)
    return receipt


async def test_after_a_refusal_the_adapter_waits_before_it_connects_again(tmp_path: Path) -> None:
    async def refuse(wire: ServerConnection) -> None:
        await wire.close(3000, "Unauthorized")

    async with strange_server(refuse) as (client, identified), started(tmp_path, client):
        with anyio.fail_after(30):
            while not identified:
                await anyio.sleep(0.02)
        await anyio.sleep(0.5)
        assert len(identified) == 1


async def test_the_adapter_reconnects_when_the_server_is_silent(tmp_path: Path) -> None:
    login = {"platform": "mem", "status": 1, "sn": 1, "adapter": "mem", "user": {"id": "bot1"}}
    ready = {"op": 4, "body": {"logins": [login], "proxy_urls": []}}

    async def fall_silent(wire: ServerConnection) -> None:
        await wire.send(json.dumps(ready))
        await wire.wait_closed()

    async with (
        strange_server(fall_silent) as (client, identified),
        started(tmp_path, client, silent_s=0.2),
    ):
        with anyio.fail_after(30):
            while len(identified) < 2:
                await anyio.sleep(0.02)


def _status_of(accounts: PlatformAccounts, key: str) -> AccountStatus:
    (found,) = (each for each in accounts.listed() if each.key == key)
    return found


async def test_the_error_of_a_server_that_never_answers_the_login_is_shown(
    tmp_path: Path,
) -> None:
    async def say_nothing(wire: ServerConnection) -> None:
        await wire.wait_closed()

    async with (
        SatoriPeer() as peer,
        strange_server(say_nothing) as (client, _),
        running(tmp_path, peer) as bot,
    ):
        assert isinstance(bot.adapter, SupportsAccounts)
        accounts = bot.adapter.managed_accounts
        added = await accounts.add(client)
        with anyio.fail_after(60):
            while not (status := _status_of(accounts, added.key)).last_error:
                await anyio.sleep(0.05)
        assert status.state == "connecting"
        assert "did not answer the login within 10 s" in status.last_error


async def test_an_edit_changes_the_stored_message(tmp_path: Path) -> None:
    async with SatoriPeer() as peer, running(tmp_path, peer) as bot:
        said = await peer.say("g1", "ann", "tee")
        await bot.host.received(1)
        await peer.raw("g1", "ann", "tea", id=said, type="message-updated")
        await bot.host.until(lambda: bool(bot.host.revised))
        assert bot.host.revised == [(GROUP, f"{said}@g1", "mem:ann", (Text("tea"),))]


async def test_a_message_whose_outcome_is_unknown_is_found_in_the_history(tmp_path: Path) -> None:
    async with SatoriPeer() as peer, running(tmp_path, peer) as bot:
        asked = await peer.say("g1", "ann", "hello")
        await bot.host.received(1)
        earlier = await bot.send("earlier")
        bot.adapter._send_s = 0.5  # type: ignore[attr-defined]
        await peer.silence()
        assert (await bot.send("1 < 2")).state is DeliveryState.UNKNOWN
        assert isinstance(bot.adapter, SupportsConfirmation)
        ids = frozenset({f"{asked}@g1", earlier.message_id})
        for said, state in (("1 < 2", DeliveryState.SENT), ("2 < 1", DeliveryState.UNKNOWN)):
            delivery = Delivery(delivery_id="d", chat_key=GROUP, segments=(Text(said),))
            doubt = UncertainDelivery(delivery=delivery, since=time.time(), before=ids, taken=ids)
            assert (await bot.adapter.confirm(doubt)).state is state
        known = ids | {"m2@g1"}
        doubt = UncertainDelivery(delivery=delivery, since=time.time(), before=ids, taken=known)
        assert (await bot.adapter.confirm(doubt)).state is DeliveryState.REJECTED


async def test_a_second_server_is_added_while_the_bot_runs_and_the_first_one_keeps_working(
    tmp_path: Path,
) -> None:
    async with (
        SatoriPeer() as peer,
        SatoriPeer(self_id="bot2") as second,
        running(tmp_path, peer) as bot,
    ):
        assert isinstance(bot.adapter, SupportsAccounts)
        accounts = bot.adapter.managed_accounts
        wrong = await accounts.test({**second.client, "token": "hunter2"})
        assert (wrong.ok, wrong.problem) == (False, ConnectionProblem.REFUSED)
        tested = await accounts.test(second.client)
        assert tested.ok, tested
        added = await accounts.add(second.client)
        seen = await accounts.wait_until_seen(added.key, limit_s=30)
        assert (seen.state, seen.account) == ("online", "mem:bot2")
        await second.say("g1", "ann", "to the second one")
        assert (await bot.host.next_message(limit_s=30)).account == "mem:bot2"

        await accounts.pause(added.key)
        await peer.say("g1", "ann", "to the first one")
        assert (await bot.host.next_message(limit_s=30)).text == "to the first one"
        await accounts.resume(added.key)
        assert (await accounts.wait_until_seen(added.key, limit_s=30)).state == "online"
        await second.say("g1", "ann", "again")
        assert (await bot.host.next_message(limit_s=30)).text == "again"
        await accounts.remove(added.key)
        assert [each.locked for each in accounts.listed()] == ["SATORI_CLIENTS"]
        assert peer.connections == 1
