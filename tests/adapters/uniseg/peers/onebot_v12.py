"""A fake OneBot v12 implementation: it sends people's messages and records the bot's calls."""

import json
from typing import Any, ClassVar

from nonebot.adapters.onebot.v12 import Bot
from nonebot.drivers import Request

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench

GROUP = "onebot_v12-group_30003"


class OneBotV12(Peer):
    chat = GROUP
    settings: ClassVar = {"onebot_v12_api_roots": {"20002": "http://127.0.0.1:1/"}}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.bot = Bot(bench.stock, "20002", "impl", "qq")
        self.refused: dict[str, Any] = {}

    def answer(self, request: Request) -> Any:
        data: dict[str, Any] = {"message_id": "m-1", "time": 1_700_000_001}
        action = json.loads(request.content)["action"]
        if action == "upload_file":
            data = {"file_id": "f-1"}
        elif action == "get_file":
            data = {"name": "x", "data": "Ynl0ZXM="}
        return {"status": "ok", "retcode": 0, "data": data, "message": "", **self.refused}

    async def event(self, **data: Any) -> None:
        told = {"id": "e", "time": 1_700_000_000, "sub_type": "", "user_id": "10001",
                "self": {"platform": "qq", "user_id": "20002"}, **data}  # fmt: skip
        await self.bench.hear(self.bot, self.bench.stock.json_to_event(told, "impl"))

    async def say(self, *segments: Any, **place: Any) -> Any:
        await self.tell(*segments, **place)
        return await self.bench.host.next_message()

    async def tell(self, *segments: Any, message_id: str = "p-1", **place: Any) -> None:
        parts = [
            {"type": "text", "data": {"text": s}} if isinstance(s, str) else s for s in segments
        ]
        place = place or {"detail_type": "group", "group_id": "30003"}
        await self.event(
            type="message", message_id=message_id, message=parts, alt_message="x", **place
        )

    @property
    def call(self) -> tuple[str, Any]:
        told = json.loads(self.bench.driver.requests[-1].content)
        return told["action"], told["params"]

    def refusal(self, request: Request) -> Any:
        self.refused = {"status": "failed", "retcode": 35004, "data": None, "message": "muted"}
        return self.answer(request)

    async def spoken(self, text: str, message_id: str) -> None:
        await self.tell(text, message_id=message_id)

    def seen(self) -> list[str]:
        messages = [json.loads(r.content)["params"]["message"] for r in self.bench.driver.requests]
        return ["".join(part["data"]["text"] for part in message) for message in messages]
