"""The other side: what people do there, and what they see."""

import json
from typing import Any

from nonebot.adapters.onebot.v12 import Bot
from nonebot.drivers import Request

from tests.adapters.uniseg.stock import Bench

GROUP = "onebot_v12-group_30003"


class OneBotV12:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.bot = Bot(bench.stock, "20002", "impl", "qq")
        self.refusal: dict[str, Any] = {}
        bench.driver.answer = self.answer

    def answer(self, request: Request) -> Any:
        data: dict[str, Any] = {"message_id": "m-1", "time": 1_700_000_001}
        action = json.loads(request.content)["action"]
        if action == "upload_file":
            data = {"file_id": "f-1"}
        elif action == "get_file":
            data = {"name": "x", "data": "Ynl0ZXM="}
        return {"status": "ok", "retcode": 0, "data": data, "message": "", **self.refusal}

    async def event(self, **data: Any) -> None:
        told = {"id": "e", "time": 1_700_000_000, "sub_type": "", "user_id": "10001",
                "self": {"platform": "qq", "user_id": "20002"}, **data}  # fmt: skip
        await self.bench.hear(self.bot, self.bench.stock.json_to_event(told, "impl"))

    async def say(self, *segments: Any, **place: Any) -> Any:
        parts = [
            {"type": "text", "data": {"text": s}} if isinstance(s, str) else s for s in segments
        ]
        place = place or {"detail_type": "group", "group_id": "30003"}
        await self.event(type="message", message_id="p-1", message=parts, alt_message="x", **place)
        return await self.bench.host.next_message()

    @property
    def call(self) -> tuple[str, Any]:
        told = json.loads(self.bench.driver.requests[-1].content)
        return told["action"], told["params"]
