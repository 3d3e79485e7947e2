"""The other side: what people do there, and what they see."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from nonechat.model import Channel, Robot, User

from tests.adapters.uniseg.stock import Bench, quietly

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
