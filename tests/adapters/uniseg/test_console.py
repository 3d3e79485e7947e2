"""The console without a terminal: what its window would be told."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nonechat.model import Channel, Robot, User

from nekro_core.api.chat import DeliveryState, Image, Media, Text
from tests.adapters.uniseg.stock import Bench, bench, quietly

stock = quietly("nonebot.adapters.console")
PRIVATE = Channel("private:ann", "ann")


class Window:
    """What the stock adapter calls instead of its window."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.backend = SimpleNamespace(
            get_user=self._user, create_dm=self._private, get_channel=self._channel
        )

    async def _user(self, user_id: str) -> User:
        return User(user_id, nickname="Ann")

    async def _private(self, user: User) -> Channel:
        return PRIVATE

    async def _channel(self, channel_id: str) -> Channel:
        return Channel(channel_id, channel_id)

    async def send_message(self, content: Any, channel: Channel, bot: Any) -> str:
        self.shown.append((channel.id, str(content)))
        return "m-1"


class Console:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.window = bench.stock._frontend = Window()
        self.bot = stock.Bot(bench.stock, Robot("robot", "Bot"))

    async def say(self, text: str, channel: Channel) -> Any:
        event = stock.event.MessageEvent(
            time=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), self_id="robot",
            user=User("ann", nickname="Ann"), channel=channel, message_id="p-1",
            message=stock.Message(text),
        )  # fmt: skip
        await self.bench.hear(self.bot, event)
        return await self.bench.host.next_message()


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with bench(tmp_path, "console", console_headless_mode=True) as made:
        peer = Console(made)
        made.connect(peer.bot)
        yield peer


async def test_a_message_comes_in_and_an_answer_goes_out(console: Console) -> None:
    heard = await console.say("hello", PRIVATE)
    assert str(heard.chat_key) == "console-private_ann"
    assert heard.segments == (Text("hello"),)
    assert (heard.to_bot, heard.sender.name, heard.time) == (True, "Ann", 1_700_000_000)
    receipt = await console.bench.send(heard.chat_key, "hi")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "m-1")
    assert console.window.shown == [("private:ann", "hi")]


async def test_a_picture_is_shown_as_where_it_lies(console: Console, tmp_path: Path) -> None:
    heard = await console.say("hello", Channel("general", "General"))
    assert str(heard.chat_key) == "console-group_general"
    path = tmp_path / "cat.png"
    assert (await console.bench.send(heard.chat_key, Image(Media(path=str(path))))).ok
    assert console.window.shown == [("general", f"[image] {path}")]


async def test_without_a_terminal_it_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="runs in no terminal"):
        async with bench(tmp_path, "console"):
            pass
