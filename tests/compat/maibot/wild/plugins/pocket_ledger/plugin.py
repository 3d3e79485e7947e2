"""口袋账本。

表：LedgerEntry(user_id, session_id, what, cents, created_at)
另外每次清账都往 ActionRecord 里记一笔，方便以后对账。
"""

import sys
import time
from pathlib import Path
from typing import Any

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

from maibot_sdk import Command, MaiBotPlugin, Tool
from maibot_sdk.types import ToolParameterInfo, ToolParamType

from ledger_math import to_cents, total, yuan

TABLE = "LedgerEntry"


class PocketLedgerPlugin(MaiBotPlugin):
    async def on_load(self) -> None:
        count = await self.ctx.db.count(TABLE)
        self.ctx.logger.info("口袋账本已加载，共有 %d 笔账", count)

    async def on_unload(self) -> None:
        pass

    async def on_config_update(self, scope: str, config_data: dict, version: str) -> None:
        pass

    async def _rows(self, user_id: str, stream_id: str, limit: int | None = None) -> list[dict]:
        rows = await self.ctx.db.get(
            TABLE,
            filters={"user_id": user_id, "session_id": stream_id},
            order_by="-created_at",
            limit=limit,
        )
        # 出错时主程序会给一个字典
        return rows if isinstance(rows, list) else []

    async def _name(self, user_id: str, platform: str) -> str:
        person = await self.ctx.person.get_id(platform or "qq", user_id)
        if not isinstance(person, str) or not person:
            return user_id
        value = await self.ctx.person.get_value(person, "nickname")
        return value if isinstance(value, str) and value else user_id

    @Command(
        "ledger_add",
        description="记账：记账 奶茶 18.5",
        pattern=r"^记账\s+(?P<what>\S+)\s+(?P<amount>-?\d+(?:\.\d{1,2})?)$",
    )
    async def handle_add(self, stream_id: str, user_id: str = "", matched_groups=None, **kwargs):
        cents = to_cents(matched_groups["amount"])
        saved = await self.ctx.db.save(
            TABLE,
            {
                "user_id": str(user_id),
                "session_id": stream_id,
                "what": matched_groups["what"],
                "cents": cents,
                "created_at": time.time(),
            },
        )
        if isinstance(saved, dict) and saved.get("success") is False:
            await self.ctx.send.text(f"没记上：{saved.get('error')}", stream_id)
            return False, "保存失败", 2
        rows = await self._rows(str(user_id), stream_id)
        text = f"记下了 {matched_groups['what']} {yuan(cents)}，第 {len(rows)} 笔，合计 {yuan(total(rows))}"
        await self.ctx.send.text(text, stream_id)
        return True, text, 2

    @Command("ledger_last", description="最近几笔", pattern=r"^/账单(?:\s+(?P<n>\d+))?$")
    async def handle_last(self, stream_id: str, user_id: str = "", matched_groups=None, **kwargs):
        limit = int((matched_groups or {}).get("n") or 3)
        rows = await self._rows(str(user_id), stream_id, limit)
        lines = [f"{row['what']} {yuan(row['cents'])}" for row in rows]
        text = "最近的账：\n" + "\n".join(lines) if lines else "一笔账都没有"
        await self.ctx.send.text(text, stream_id)
        return True, text, 2

    @Command("ledger_rename", description="改名", pattern=r"^/改账\s+(?P<old>\S+)\s+(?P<new>\S+)$")
    async def handle_rename(self, stream_id: str, user_id: str = "", matched_groups=None, **kwargs):
        await self.ctx.db.query(
            TABLE,
            query_type="update",
            data={"what": matched_groups["new"]},
            filters={
                "user_id": str(user_id),
                "session_id": stream_id,
                "what": matched_groups["old"],
            },
        )
        renamed = await self.ctx.db.count(
            TABLE, {"user_id": str(user_id), "what": matched_groups["new"]}
        )
        text = f"现在有 {renamed} 笔叫「{matched_groups['new']}」"
        await self.ctx.send.text(text, stream_id)
        return True, text, 2

    @Command("ledger_clear", description="清空自己的账", pattern=r"^/清账$")
    async def handle_clear(self, stream_id: str, user_id: str = "", **kwargs):
        rows = await self._rows(str(user_id), stream_id)
        await self.ctx.db.delete(TABLE, {"user_id": str(user_id), "session_id": stream_id})
        left = await self.ctx.db.count(TABLE, {"user_id": str(user_id), "session_id": stream_id})
        action_id = f"ledger-{user_id}-{int(time.time())}"
        await self.ctx.db.save(
            "ActionRecord",
            {
                "action_id": action_id,
                "session_id": stream_id,
                "action_name": "ledger_clear",
                "action_data": yuan(total(rows)),
            },
        )
        record = await self.ctx.db.get(
            "ActionRecord", filters={"action_id": action_id}, single_result=True
        )
        noted = isinstance(record, dict) and record.get("action_name") == "ledger_clear"
        text = f"清掉 {len(rows)} 笔，剩 {left} 笔，{'已存档' if noted else '存档失败'}"
        await self.ctx.send.text(text, stream_id)
        return True, text, 2

    @Tool(
        "query_spending",
        brief_description="查询某个人在本群花了多少钱",
        detailed_description="不填 user_id 就查提问的人。",
        parameters=[
            ToolParameterInfo(
                name="user_id",
                param_type=ToolParamType.STRING,
                description="要查询的用户 ID，不填则查当前用户",
                required=False,
            ),
            ToolParameterInfo(
                name="keyword",
                param_type=ToolParamType.STRING,
                description="只统计名称里有这个词的账",
                required=False,
            ),
        ],
    )
    async def handle_query(
        self, user_id: str = "", keyword: str = "", stream_id: str = "", **kwargs: Any
    ) -> dict[str, Any]:
        if not user_id:
            return {"success": False, "error": "不知道要查谁"}
        rows = [row for row in await self._rows(user_id, stream_id) if keyword in row["what"]]
        name = await self._name(user_id, kwargs.get("platform", ""))
        return {
            "success": True,
            "content": f"{name}({user_id}) 共 {len(rows)} 笔，{yuan(total(rows))}",
            "cents": total(rows),
        }

    @Tool("count_talk", description="数一数本聊天一共存了多少条消息")
    async def handle_count_talk(self, stream_id: str = "", **kwargs):
        count = await self.ctx.db.count("Messages", {"session_id": stream_id})
        return {"messages": count}


def create_plugin():
    return PocketLedgerPlugin()
