"""A fake Milky implementation: it sends people's messages and records the bot's calls."""

import json
from typing import Any, ClassVar

from nonebot.adapters.milky import Bot
from nonebot.adapters.milky.config import ClientInfo
from nonebot.drivers import Request

from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.stock import Bench

GROUP = "milky-group_30003"
MEMBER = {
    "user_id": 10001, "nickname": "ann", "sex": "female", "group_id": 30003, "card": "Annie",
    "title": "", "level": 1, "role": "admin", "join_time": 1, "last_sent_time": 1,
}  # fmt: skip


class Milky(Peer):
    chat = GROUP
    settings: ClassVar = {"milky_clients": []}

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.bot = Bot(bench.stock, "20002", ClientInfo())

    def answer(self, request: Request) -> Any:
        data: dict[str, Any] = {"message_seq": 78, "time": 1_700_000_001}
        if "download_url" in request.url.path:
            data = {"download_url": "https://example.com/file"}
        elif "upload" in request.url.path:
            data = {"file_id": "/f1"}
        return {"status": "ok", "retcode": 0, "data": data}

    async def event(self, kind: str, **data: Any) -> None:
        told = {"event_type": kind, "time": 1_700_000_000, "self_id": 20002, "data": data}
        event = self.bench.stock.json_to_event(told)
        await self.bench.hear(self.bot, event)

    async def say(self, *segments: Any, **more: Any) -> Any:
        await self.tell(*segments, **more)
        return await self.bench.host.next_message()

    async def tell(self, *segments: Any, seq: int = 77, scene: str = "group", **more: Any) -> None:
        place = {"group_member": MEMBER} if scene == "group" else {}
        parts = [
            {"type": "text", "data": {"text": s}} if isinstance(s, str) else s for s in segments
        ]
        peer = 30003 if scene == "group" else 10001
        await self.event(
            "message_receive", message_scene=scene, peer_id=peer, message_seq=seq,
            sender_id=10001, time=1_700_000_000, segments=parts, **{**place, **more},
        )  # fmt: skip

    @property
    def call(self) -> tuple[str, Any]:
        """Return the action and the parameters of the last call."""
        request = self.bench.driver.requests[-1]
        return request.url.path.rpartition("/")[2], json.loads(request.content)

    def refusal(self, request: Request) -> Any:
        return {"status": "failed", "retcode": -500, "message": "muted"}

    async def spoken(self, text: str, message_id: str) -> None:
        await self.tell(text, seq=int(message_id))

    def seen(self) -> list[str]:
        messages = [json.loads(r.content)["message"] for r in self.bench.driver.requests]
        return ["".join(part["data"]["text"] for part in message) for message in messages]
