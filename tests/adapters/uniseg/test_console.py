"""The console adapter without a terminal: the tests read what its window should show."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nonechat.model import Channel

from nekro_core.api.chat import DeliveryState, Image, Media, Text
from tests.adapters.uniseg.peers.console import PRIVATE, Console
from tests.adapters.uniseg.stock import bench


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with Console.connected(tmp_path) as peer:
        yield peer


async def test_a_message_is_received_and_answered(console: Console) -> None:
    heard = await console.say("hello", PRIVATE)
    assert str(heard.chat_key) == "console-private_ann"
    assert heard.segments == (Text("hello"),)
    assert (heard.to_bot, heard.sender.name, heard.time) == (True, "Ann", 1_700_000_000)
    receipt = await console.bench.send(heard.chat_key, "hi")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "m-1")
    assert console.window.shown == [("private:ann", "hi")]


async def test_a_picture_is_shown_as_its_path(console: Console, tmp_path: Path) -> None:
    heard = await console.say("hello", Channel("general", "General"))
    assert str(heard.chat_key) == "console-group_general"
    path = tmp_path / "cat.png"
    path.write_bytes(b"cat")
    assert (await console.bench.send(heard.chat_key, Image(Media(path=str(path))))).ok
    assert console.window.shown == [("general", f"[image] {path}")]


async def test_without_a_terminal_the_adapter_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="runs in no terminal"):
        async with bench(tmp_path, "console"):
            pass
