"""A fake Satori server: it sends people's messages and records the bot's requests."""

from html import escape, unescape
from typing import Any, ClassVar

from nonebot.adapters.satori import Bot
from nonebot.adapters.satori.config import ClientInfo
from nonebot.adapters.satori.models import Event, Login
from nonebot.drivers import Request, Response

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench

GROUP = "satori-group_g1"
CLIENT = {"host": "127.0.0.1", "port": 5140, "token": "t"}


class Satori(Peer):
    """A fake server with one login and a history of each channel."""

    chat = GROUP
    settings: ClassVar = {"satori_clients": []}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.login = {
            "platform": "mem", "status": 1, "user": {"id": "bot1"}, "sn": 1,
            "features": ["message.create", "message.list"],
        }  # fmt: skip
        self.history: dict[str, list[dict[str, Any]]] = {}
        """The messages of each channel, oldest first."""
        login = Login.model_validate({**self.login, "adapter": "mem"})
        self.bot = Bot(bench.stock, "bot1", login, ClientInfo(**CLIENT), [])

    def answer(self, request: Request) -> Any:
        if request.url.path.endswith("message.create"):
            ours = sum(each["user"]["id"] == "bot1" for each in self.shown(request))
            message = {"id": f"m{ours + 1}", "content": request.json["content"]}
            self.show(request.json["channel_id"], "bot1", message)
            return [message]
        if request.url.path.endswith("message.list"):
            return {"data": self.shown(request)}
        return {"id": "private:ann", "type": 1}

    def shown(self, request: Request) -> list[dict[str, Any]]:
        return self.history.get(request.json["channel_id"], [])

    def show(self, channel: str, user: str, message: dict[str, Any]) -> None:
        """Add a message to a channel's history."""
        shown = self.history.setdefault(channel, [])
        at = 1_700_000_000_000 + 1000 * len(shown)
        shown.append({**message, "user": {"id": user}, "created_at": at})

    async def event(self, kind: str, **more: Any) -> None:
        payload = {
            "type": kind,
            "timestamp": 1_700_000_000_000,
            "login": self.login,
            "sn": 1,
            **more,
        }
        event = self.bench.stock.payload_to_event(Event.model_validate(payload))
        if hasattr(event, "convert"):
            event = event.convert()
        await self.bench.hear(self.bot, event)

    async def say(self, content: str, *, message_id: str = "p1", private: bool = False) -> None:
        place = {"id": "private:ann", "type": 1} if private else {"id": "g1", "type": 0}
        self.show(str(place["id"]), "ann", {"id": message_id, "content": content})
        await self.event(
            "message-created",
            channel=place,
            user={"id": "ann", "name": "Ann"},
            member={"nick": "Annie"},
            message={"id": message_id, "content": content},
            **({} if private else {"guild": {"id": "g1"}}),
        )

    def is_sending(self, request: Request) -> bool:
        return not request.url.path.endswith("message.list")

    def refusal(self, request: Request) -> Any:
        return Response(403, content="not allowed")

    async def spoken(self, text: str, message_id: str) -> None:
        await self.say(escape(text), message_id=message_id)

    def seen(self) -> list[str]:
        return [unescape(request.json["content"]) for request in self.bench.driver.requests]
