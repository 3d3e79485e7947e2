"""A preview shows a server in a real box, before and after the sleep of the box and at its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect

from nekro_core.sandbox.box import Backend, Box
from nekro_core.sandbox.named import (
    FolderStorage,
    NamedBoxes,
    NamedBoxLimits,
    OwnerBoxes,
    UseEffect,
)
from tests.sandbox.conftest import SMALL
from tests.sandbox.named.memory_boxes import Clock
from tests.sandbox.preview.world import World, status, world

pytestmark = pytest.mark.jail

SERVER = Path(__file__).with_name("box_server.py").read_bytes()
START = "python3 server.py 8000 > log 2>&1 &"


class JailSource:
    """A source that makes a new box of the jail for each call of `take`."""

    def __init__(self, jail: Backend) -> None:
        self._jail = jail

    async def take(self, image: str = "") -> Box:
        return await self._jail.create(SMALL)


@pytest.fixture
async def lin(jail: Backend, tmp_path: Path) -> AsyncIterator[tuple[OwnerBoxes, NamedBoxes, Clock]]:
    clock = Clock()
    keeper = NamedBoxes(JailSource(jail), FolderStorage(tmp_path), NamedBoxLimits(), clock=clock)
    yield keeper.of("lin"), keeper, clock
    await keeper.aclose()


async def started(owned: OwnerBoxes, here: World) -> str:
    """Start the server in the box ``web`` and open its preview. Returns the preview's host name."""
    async with owned.use("web", UseEffect.PROCESSES) as used:
        await used.box.write_file("server.py", SERVER)
        await used.box.execute(START)
        name = here.preview.open(used.named, 8000).split("/")[2]
    with anyio.fail_after(30):
        while status(await here.get(name)) == 502:
            await anyio.sleep(0.02)
    return name


async def test_a_preview_works_until_the_box_sleeps_and_after_the_server_runs_again(
    lin: tuple[OwnerBoxes, NamedBoxes, Clock],
) -> None:
    owned, keeper, clock = lin
    async with world() as here:
        name = await started(owned, here)
        assert b"In a box" in await here.get(name)
        big = bytes(3_000_000)
        post = f"POST / HTTP/1.1\r\nHost: {name}\r\nContent-Length: {len(big)}\r\n"
        sent = await here.ask(f"{post}Connection: close\r\n\r\n".encode() + big)
        assert sent.endswith(b"3000000 bytes")
        async with connect(f"ws://{name}/live", host="127.0.0.1", port=here.port) as socket:
            await socket.send("hello")
            assert await socket.recv() == "the box says hello"

            clock.now += 10_000
            await keeper.end_idle()
            with anyio.fail_after(30):
                await socket.wait_closed()

        answer = await here.get(name)
        assert status(answer) == 503, "a visit must not wake the box"
        assert b"asleep" in answer
        assert await started(owned, here) == name, (
            "the address must be the same when the server runs again"
        )
        await owned.destroy("web")
        assert status(await here.get(name)) == 404
        assert here.bot.seen == []
