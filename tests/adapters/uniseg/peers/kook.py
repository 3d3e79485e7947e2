"""A fake KOOK: it sends people's messages and records the bot's requests."""

from typing import Any, ClassVar

from nonebot.drivers import Request

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench, quietly

Bot = quietly("nonebot.adapters.kaiheila").Bot
escape_kmarkdown = quietly("nonebot.adapters.kaiheila.utils").escape_kmarkdown
CHANNEL = "kook-channel_333"
ANN = {"id": "111", "username": "ann", "nickname": "Annie", "bot": False}


class Kook(Peer):
    chat = CHANNEL
    settings: ClassVar = {"kaiheila_bots": []}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.bot = Bot(bench.stock, "999", "nekro", "t")
        bench.stock.api_root = "https://www.kookapp.cn/api/v3/"

    def answer(self, request: Request) -> Any:
        data = {"msg_id": "m-1", "msg_timestamp": 1, "nonce": ""}
        if "asset" in request.url.path:
            data = {"url": "https://img.kookapp.cn/asset"}
        return {"code": 0, "message": "", "data": data}

    async def event(self, kind: int, content: str, extra: dict[str, Any], **more: Any) -> None:
        data = {
            "channel_type": "GROUP", "type": kind, "target_id": "333", "author_id": "111",
            "content": content, "msg_id": "p-1", "msg_timestamp": 1_700_000_000_000, "nonce": "",
            "extra": extra, **more,
        }  # fmt: skip
        event = self.bench.stock.json_to_event(
            {"s": 0, "sn": 1, "d": data}, "999", kaiheila_config=self.bench.stock.kaiheila_config
        )
        await self.bench.hear(self.bot, event)

    async def say(self, content: str, **more: Any) -> Any:
        await self.tell(content, **more)
        return await self.bench.host.next_message()

    async def tell(self, content: str, *, raw: str = "", mentions: Any = (), **more: Any) -> None:
        markdown = {"raw_content": raw or content, "mention_part": list(mentions),
                    "mention_role_part": []}  # fmt: skip
        extra = {"type": 9, "guild_id": "222", "author": ANN, "kmarkdown": markdown}
        await self.event(9, content, extra, **more)

    @property
    def posted(self) -> Any:
        return self.bench.driver.requests[-1].data

    def refusal(self, request: Request) -> Any:
        return {"code": 40000, "message": "not allowed", "data": {}}

    async def spoken(self, text: str, message_id: str) -> None:
        await self.tell(escape_kmarkdown(text), raw=text, msg_id=message_id)

    def seen(self) -> list[str]:
        return [request.data["content"] for request in self.bench.driver.requests]
