# -*- coding: utf-8 -*-
"""签到送花 v2"""

from typing import Any, Dict, List, Tuple

from maibot_sdk import Command, MaiBotPlugin

from plugins.flower_signin.storage import FlowerBook


class FlowerSigninPlugin(MaiBotPlugin):
    book: FlowerBook

    async def on_load(self) -> None:
        self.book = FlowerBook(self.ctx.paths.data_dir / "flowers.json")
        self.book.load()
        self.ctx.logger.info(f"[签到送花] 已加载，{len(self.book.groups)} 个群")

    async def on_unload(self) -> None:
        self.book.save()

    async def on_config_update(self, scope, config_data, version):
        pass

    # ---------------- 小工具 ----------------

    @staticmethod
    def _sender(message: Any, kwargs: Dict[str, Any]) -> Tuple[str, str]:
        """(qq, 名字)"""
        info = {}
        if isinstance(message, dict):
            info = (message.get("message_info") or {}).get("user_info") or {}
        user_id = str(kwargs.get("user_id") or info.get("user_id") or "")
        name = info.get("user_cardname") or info.get("user_nickname") or user_id
        return user_id, str(name)

    @staticmethod
    def _mentioned(message: Any) -> List[Tuple[str, str]]:
        """消息里 @ 到的人。"""
        people = []
        if not isinstance(message, dict):
            return people
        for segment in message.get("raw_message") or []:
            if not isinstance(segment, dict) or segment.get("type") != "at":
                continue
            data = segment.get("data")
            if isinstance(data, dict):
                uid = str(data.get("target_user_id") or "")
                nick = data.get("target_user_cardname") or data.get("target_user_nickname") or uid
            else:
                uid = nick = str(data or "")
            if uid:
                people.append((uid, str(nick)))
        return people

    async def _say(self, text: str, stream_id: str) -> Tuple[bool, str, bool]:
        await self.ctx.send.text(text, stream_id)
        return True, text, True

    # ---------------- 命令 ----------------

    @Command("sign_in", description="每日签到", pattern=r"^/(?:签到|打卡)$", aliases=["/qd"])
    async def handle_sign_in(self, stream_id: str = "", group_id: str = "", message=None, **kwargs):
        user, name = self._sender(message, kwargs)
        if not user:
            return False, "不知道你是谁", True
        won = self.book.sign_in(group_id or stream_id, user, name)
        if not won:
            return await self._say(f"{name} 今天已经签过啦", stream_id)
        days = self.book.person(group_id or stream_id, user)["days"]
        return await self._say(f"🌸 {name} 签到第 {days} 天，得到 {won} 朵花", stream_id)

    @Command(
        "give_flowers",
        description="送花：/送花 @某人 数量",
        pattern=r"^/送花\s+.*?(?P<count>\d+)\s*朵?\s*$",
    )
    async def handle_give(
        self,
        stream_id: str = "",
        group_id: str = "",
        message: Any = None,
        matched_groups: Any = None,
        **kwargs,
    ):
        people = self._mentioned(message)
        # 第一个 @ 可能是机器人自己（有人习惯先 @ 机器人再打命令），取最后一个
        if not people:
            return await self._say("要 @ 一个人才能送花哦", stream_id)
        target, target_name = people[-1]
        count = int((matched_groups or {}).get("count") or 1)
        group = group_id or stream_id
        user, name = self._sender(message, kwargs)
        giver = self.book.person(group, user, name)
        if target == user:
            return await self._say("不可以送给自己", stream_id)
        if giver["flowers"] < count:
            return await self._say(f"花不够，你只有 {giver['flowers']} 朵", stream_id)
        giver["flowers"] -= count
        self.book.person(group, target, target_name)["flowers"] += count
        self.book.save()
        return await self._say(f"💐 {name} 送给 {target_name}({target}) {count} 朵花", stream_id)

    @Command("flower_rank", description="花榜", pattern=r"^花榜$")
    async def handle_rank(self, stream_id: str = "", group_id: str = "", **kwargs):
        people = self.book.ranking(group_id or stream_id)
        if not people:
            return await self._say("花榜还是空的", stream_id)
        lines = [f"{n}. {one['name']} {one['flowers']}朵" for n, one in enumerate(people, 1)]
        return await self._say("🏵 花榜\n" + "\n".join(lines), stream_id)


def create_plugin():
    return FlowerSigninPlugin()
