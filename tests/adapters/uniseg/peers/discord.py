"""A fake Discord: it sends people's messages and records the bot's requests."""

import json
from typing import Any, ClassVar

from nonebot.adapters.discord import Bot
from nonebot.adapters.discord.api.model import User
from nonebot.adapters.discord.config import BotInfo
from nonebot.adapters.discord.payload import Dispatch
from nonebot.drivers import Request, Response

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench

CHANNEL = "discord-channel_333"
ANN = {"id": "111", "username": "ann", "discriminator": "0", "avatar": None, "global_name": "Ann"}
SELF = {"id": "999", "username": "nekro", "discriminator": "0", "avatar": None, "global_name": None}

IN_SERVER = {
    "guild_id": "222",
    "member": {
        "nick": "Annie",
        "roles": [],
        "joined_at": "2020-01-01T00:00:00+00:00",
        "deaf": False,
        "mute": False,
        "flags": 0,
    },
}


def message(content: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "5001",
        "channel_id": "333",
        "author": ANN,
        "content": content,
        "timestamp": "2023-11-14T22:13:20+00:00",
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "pinned": False,
        "type": 0,
        **more,
    }


class Discord(Peer):
    chat = CHANNEL
    settings: ClassVar = {"discord_bots": []}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.bot = Bot(bench.stock, "998", BotInfo(token="t"))
        self.bot.self_info = User.model_validate(SELF)
        self.bot.session_id = "s"

    def answer(self, request: Request) -> Any:
        if request.url.path.endswith("/users/@me/channels"):
            return {"id": "444", "type": 1}
        if request.url.path.endswith("/typing") or "/reactions/" in request.url.path:
            return Response(204)
        return message("sent", id="6001", author=SELF)

    async def event(self, kind: str, data: dict[str, Any]) -> None:
        payload = Dispatch.model_validate({"op": 0, "d": data, "s": 1, "t": kind})
        await self.bench.hear(self.bot, self.bench.stock.payload_to_event(payload))

    async def say(self, content: str, **more: Any) -> Any:
        data = message(content, **{**IN_SERVER, **more})
        given = {name: value for name, value in data.items() if value is not ...}
        await self.event("MESSAGE_CREATE", given)
        return await self.bench.host.next_message()

    @property
    def sent(self) -> dict[str, Any]:
        """Return the content of the last message that the bot sent."""
        request = self.bench.driver.requests[-1]
        if request.json is not None:
            return request.json
        return json.loads(dict(request.files)["payload_json"][1])

    def refusal(self, request: Request) -> Any:
        return Response(403, content=json.dumps({"code": 50013, "message": "Missing Permissions"}))

    async def spoken(self, text: str, message_id: str) -> None:
        await self.event("MESSAGE_CREATE", message(text, id=message_id, **IN_SERVER))

    def seen(self) -> list[str]:
        shown: list[str] = []
        for request in self.bench.driver.requests:
            if request.method == "PATCH":
                shown[-1] = request.json["content"]
            elif request.url.path.endswith("/messages"):
                shown.append(request.json["content"])
        return shown
