"""A fake window of NoneBot's console adapter. It sends people's messages to the bot, and records
what it should show."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, ClassVar

import anyio
from nonebot.exception import ActionFailed
from nonechat.model import Channel, Robot, User

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench, quietly

stock = quietly("nonebot.adapters.console")
PRIVATE = Channel("private:ann", "ann")


class Window:
    """NoneBot's adapter calls this object instead of its real window."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.refusing = self.silent = False
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
        if self.refusing:
            raise ActionFailed("console", "the window is closed")
        self.shown.append((channel.id, str(content)))
        if self.silent:
            await anyio.sleep_forever()
        return "m-1"


class Console(Peer):
    chat = "console-group_general"
    settings: ClassVar = {"console_headless_mode": True}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.window = bench.stock._frontend = Window()
        self.bot = stock.Bot(bench.stock, Robot("robot", "Bot"))

    async def say(self, text: str, channel: Channel) -> Any:
        await self.tell(text, channel)
        return await self.bench.host.next_message()

    async def tell(self, text: str, channel: Channel, message_id: str = "p-1") -> None:
        event = stock.event.MessageEvent(
            time=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), self_id="robot",
            user=User("ann", nickname="Ann"), channel=channel, message_id=message_id,
            message=stock.Message(text),
        )  # fmt: skip
        await self.bench.hear(self.bot, event)

    def refuse(self) -> None:
        self.window.refusing = True

    def go_silent(self) -> None:
        self.window.silent = True

    async def spoken(self, text: str, message_id: str) -> None:
        await self.tell(text, Channel("general", "General"), message_id)

    def seen(self) -> list[str]:
        return [text for _, text in self.window.shown]
