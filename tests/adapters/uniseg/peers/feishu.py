"""A fake Feishu: it sends people's messages and records the bot's requests."""

import json
from typing import Any, ClassVar

from nonebot.adapters.feishu import Bot
from nonebot.adapters.feishu.config import BotConfig
from nonebot.adapters.feishu.models import BotInfo
from nonebot.drivers import Request, Response

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench

GROUP = "feishu-group_oc_g"
ANN = {"open_id": "ou_ann", "union_id": "on_ann", "user_id": "ann"}
SELF = {"open_id": "ou_bot", "union_id": "on_bot", "user_id": None}
MENTION = {"key": "@_user_1", "id": {**SELF, "user_id": ""}, "name": "nekro", "tenant_key": "t"}


class Feishu(Peer):
    chat = GROUP
    settings: ClassVar = {"feishu_bots": []}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        config = BotConfig(app_id="cli_1", app_secret="s", verification_token="v")
        info = BotInfo(
            activate_status=2, app_name="nekro", avatar_url="https://example.com/a.png",
            ip_white_list=[], open_id="ou_bot",
        )  # fmt: skip
        self.bot = Bot(bench.stock, "cli_1", bot_config=config, bot_info=info)
        self.result: dict[str, Any] = {"code": 0, "data": {"message_id": "om_9"}}
        self.status = 200

    def answer(self, request: Request) -> Any:
        data: dict[str, Any] = self.result
        status = self.status
        if "tenant_access_token" in request.url.path:
            data, status = {"code": 0, "msg": "ok", "tenant_access_token": "t", "expire": 7200}, 200
        elif "/resources/" in request.url.path:
            return Response(200, content=b"bytes", headers={"Content-Type": "image/png"})
        elif request.url.path.endswith("/images"):
            data, status = {"code": 0, "data": {"image_key": "img_1"}}, 200
        elif request.url.path.endswith("/files"):
            data, status = {"code": 0, "data": {"file_key": "file_1"}}, 200
        headers = {"Content-Type": "application/json"}
        return Response(status, content=json.dumps(data), headers=headers)

    async def event(self, kind: str, event: Any) -> None:
        header = {
            "event_id": "e", "event_type": kind, "create_time": "1700000000000", "token": "v",
            "app_id": "cli_1", "tenant_key": "t",
        }  # fmt: skip
        told = {"schema": "2.0", "header": header, "event": event}
        await self.bench.hear(self.bot, self.bench.stock.json_to_event(told))

    async def say(self, content: Any, *place: str, **more: Any) -> Any:
        await self.tell(content, *place, **more)
        return await self.bench.host.next_message()

    async def tell(
        self, content: Any, kind: str = "text", chat: str = "group", **more: Any
    ) -> None:
        message = {
            "message_id": "om_1", "create_time": "1700000000000", "chat_id": "oc_g",
            "chat_type": chat, "message_type": kind, "content": json.dumps(content), **more,
        }  # fmt: skip
        sender = {"sender_id": ANN, "sender_type": "user", "tenant_key": "t"}
        await self.event("im.message.receive_v1", {"sender": sender, "message": message})

    @property
    def sent(self) -> tuple[str, Any]:
        """Return the type and the content of the bot's last message."""
        body = self.bench.driver.requests[-1].json
        return body["msg_type"], json.loads(body["content"])

    def refusal(self, request: Request) -> Any:
        self.result = {"code": 230002, "msg": "bot is not in the chat"}
        return self.answer(request)

    async def spoken(self, text: str, message_id: str) -> None:
        await self.tell({"text": text}, message_id=message_id)

    def seen(self) -> list[str]:
        shown: list[str] = []
        for request in self.bench.driver.requests:
            if request.method == "PUT":
                shown[-1] = _text(request)
            elif request.url.path.endswith("/messages"):
                shown.append(_text(request))
        return shown


def _text(request: Request) -> str:
    return json.loads(request.json["content"])["text"].replace("\u200b", "")
