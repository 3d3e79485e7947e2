"""A game that people play with commands. It has a state for each chat and a table of scores, and
its replies mention people."""

import random
import re

from maibot_sdk import Command, MaiBotPlugin


class NumberGame(MaiBotPlugin):
    def __init__(self):
        super().__init__()
        self.games: dict[str, int] = {}

    async def on_load(self) -> None:
        self.random = random.Random(7)

    async def on_unload(self) -> None:
        self.games.clear()

    async def on_config_update(self, scope, config_data, version) -> None:
        pass

    @Command(
        "start_game", description="开始", pattern=r"^/(?:guess|猜数字)\s+start(?:\s+(?P<top>\d+))?$"
    )
    async def handle_start(self, stream_id: str = "", matched_groups: dict | None = None, **kwargs):
        top = int((matched_groups or {}).get("top") or 100)
        self.games[stream_id] = self.random.randint(1, top)
        await self.ctx.send.text(f"1 到 {top}，开始！", stream_id)
        return True, "started", 2

    @Command("guess", description="猜", pattern=r"^/guess\s+(?P<number>\d+)$")
    async def handle_guess(self, **kwargs):
        stream_id, user_id = kwargs["stream_id"], kwargs["user_id"]
        if stream_id not in self.games:
            await self.ctx.send.text("还没有开始", stream_id)
            return False, "no game", True
        number, wanted = int(kwargs["matched_groups"]["number"]), self.games[stream_id]
        if number != wanted:
            await self.ctx.send.text("大了" if number > wanted else "小了", stream_id)
            return True, "again", True
        del self.games[stream_id]
        won = await self.ctx.db.get("scores", {"user_id": user_id}, single_result=True)
        points = (won or {}).get("points", 0) + 1
        await self.ctx.db.save(
            "scores", {"user_id": user_id, "points": points}, key_field="user_id", key_value=user_id
        )
        name = kwargs["message"]["message_info"]["user_info"]["user_nickname"]
        await self.ctx.send.hybrid(
            [
                {"type": "at", "data": {"target_user_id": user_id, "target_user_nickname": name}},
                {"type": "text", "data": f" 猜中了！共 {points} 分"},
            ],
            stream_id,
        )
        return True, "won", 2

    @Command("history", pattern=r"^/history$", aliases=["/记录"])
    async def handle_history(self, stream_id: str = "", **kwargs):
        messages = await self.ctx.message.get_recent(stream_id, 5)
        text = await self.ctx.message.build_readable(messages)
        await self.ctx.send.text(re.sub(r"\s*\n\s*", " | ", text), stream_id)
        return True, text, 1

    @Command("reset", pattern=r"^/reset_scores$", permission="operator")
    async def handle_reset(self, stream_id: str = "", **kwargs):
        await self.ctx.send.text("cleared", stream_id)
        return True, "", 2


def create_plugin():
    return NumberGame()
