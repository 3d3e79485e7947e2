"""A fake QQ bot platform: it sends people's messages and records the bot's requests."""

import json
from html import escape
from typing import Any, ClassVar

from nonebot.adapters.qq import Bot
from nonebot.adapters.qq.config import BotInfo
from nonebot.adapters.qq.models import Dispatch, User
from nonebot.drivers import Request, Response

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench

GROUP, CHANNEL = "qq-group_G1", "qq-channel_333"
TIME = "2023-11-15T06:13:20+08:00"


class QQ(Peer):
    chat = GROUP
    settings: ClassVar = {"qq_bots": []}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.bot = Bot(bench.stock, "1020", BotInfo(id="1020", secret="s"))
        self.bot.self_info = User(id="999", username="nekro")
        self.time = TIME
        self.status, self.result = 200, {"id": "m-1", "timestamp": TIME}

    def answer(self, request: Request) -> Any:
        data: dict[str, Any] = self.result
        status = self.status
        if "getAppAccessToken" in str(request.url):
            data, status = {"access_token": "t", "expires_in": "7200"}, 200
        elif request.url.path.endswith("/files"):
            data = {"file_uuid": "u", "file_info": "info", "ttl": 60}
        elif "/channels/" in request.url.path:
            author = {"id": "999", "bot": True}
            data = {**data, "channel_id": "333", "guild_id": "222", "author": author}
        return Response(status, content=json.dumps(data))

    async def event(self, kind: str, data: dict[str, Any], **more: Any) -> None:
        payload = Dispatch.model_validate(
            {"op": 0, "d": data, "s": 1, "t": kind, "id": "e", **more}
        )
        await self.bench.hear(self.bot, self.bench.stock.payload_to_event(payload))

    async def say_in_group(self, content: str) -> Any:
        await self.tell_in_group(content)
        return await self.bench.host.next_message()

    async def tell_in_group(self, content: str, message_id: str = "p-1") -> None:
        author = {"id": "A1", "member_openid": "A1", "bot": False, "member_role": "admin",
                  "username": "Ann"}  # fmt: skip
        data = {"id": message_id, "content": content, "timestamp": self.time, "author": author,
                "group_id": "G1", "group_openid": "G1"}  # fmt: skip
        await self.event("GROUP_AT_MESSAGE_CREATE", data)

    async def say_in_channel(self, content: str, **more: Any) -> Any:
        data = {"id": "p-2", "channel_id": "333", "guild_id": "222", "content": content,
                "timestamp": TIME, "author": {"id": "111", "username": "ann", "bot": False},
                "member": {"nick": "Annie", "roles": ["4"], "joined_at": TIME}, **more}  # fmt: skip
        await self.event("MESSAGE_CREATE", data)
        return await self.bench.host.next_message()

    @property
    def sent(self) -> Any:
        return self.bench.driver.requests[-1].json

    def refusal(self, request: Request) -> Any:
        self.status, self.result = 400, {"code": 304003, "message": "no active push"}
        return self.answer(request)

    async def spoken(self, text: str, message_id: str) -> None:
        await self.tell_in_group(escape(text, quote=False), message_id)

    def seen(self) -> list[str]:
        sent = [r.json for r in self.bench.driver.requests if r.url.path.endswith("/messages")]
        return [body["content"].replace("\u200b", "") for body in sent]
