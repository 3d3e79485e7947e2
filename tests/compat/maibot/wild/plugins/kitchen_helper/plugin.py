"""碗碗厨房：菜谱查询、用量换算、随机晚饭、（默认关闭的）外卖小票。"""

import random
from typing import Any

from maibot_sdk import CONFIG_RELOAD_SCOPE_SELF, Command, MaiBotPlugin, Tool
from maibot_sdk.types import ToolParameterInfo, ToolParamType

# 菜名 -> (分钟, 两人份用量)
RECIPES: dict[str, tuple[int, dict[str, float]]] = {
    "番茄炒蛋": (10, {"番茄": 300, "鸡蛋": 150, "盐": 3}),
    "土豆炖牛腩": (95, {"土豆": 400, "牛腩": 500, "酱油": 30}),
    "凉拌黄瓜": (8, {"黄瓜": 350, "蒜": 10, "醋": 15}),
    "番茄牛腩面": (70, {"番茄": 400, "牛腩": 300, "面条": 240}),
}

TAKEAWAY_TOOL = "order_takeaway"


class KitchenHelperPlugin(MaiBotPlugin):
    """厨房小帮手。"""

    async def on_load(self) -> None:
        await self._sync_takeaway()
        self.ctx.logger.info("碗碗厨房开张，共 %d 道菜", len(RECIPES))

    async def on_unload(self) -> None:
        self.ctx.logger.info("碗碗厨房打烊")

    async def on_config_update(self, scope: str, config_data: dict[str, Any], version: str) -> None:
        if scope == CONFIG_RELOAD_SCOPE_SELF:
            await self._sync_takeaway()

    async def _sync_takeaway(self, wanted: bool | None = None) -> bool:
        """让外卖工具的开关和配置一致。"""
        if wanted is None:
            wanted = bool(await self.ctx.config.get("takeaway.enabled", False))
        if wanted:
            result = await self.ctx.component.enable_component(TAKEAWAY_TOOL, "TOOL")
        else:
            result = await self.ctx.component.disable_component(TAKEAWAY_TOOL, "TOOL")
        if isinstance(result, dict) and not result.get("success", False):
            self.ctx.logger.warning("切换外卖工具失败: %s", result.get("error"))
            return False
        self.ctx.logger.info("外卖工具已%s", "启用" if wanted else "停用")
        return True

    # ── 工具 ─────────────────────────────────────────────

    @Tool(
        "find_recipe",
        brief_description="按一种食材查找家常菜谱",
        detailed_description="只认识本店菜单上的菜。查不到时请老实告诉用户，不要自己编。",
        parameters=[
            ToolParameterInfo(
                name="ingredient",
                param_type=ToolParamType.STRING,
                description="食材名，例如 番茄",
                required=True,
            ),
            ToolParameterInfo(
                name="max_minutes",
                param_type=ToolParamType.INTEGER,
                description="最多愿意花多少分钟",
                required=False,
                default=60,
            ),
        ],
        core_tool=True,
    )
    async def handle_find_recipe(self, ingredient: str, max_minutes: int = 60, **kwargs):
        found = [
            {"name": name, "minutes": minutes}
            for name, (minutes, parts) in RECIPES.items()
            if ingredient in parts and minutes <= max_minutes
        ]
        return {"recipes": found, "count": len(found)}

    @Tool(
        "scale_recipe",
        description="把菜谱的用量换算成指定人数，可以去掉忌口的食材",
        parameters=[
            ToolParameterInfo(name="name", description="菜名"),
            ToolParameterInfo(name="servings", param_type="integer", description="几个人吃"),
            ToolParameterInfo(
                name="unit",
                param_type=ToolParamType.STRING,
                description="重量单位",
                required=False,
                enum_values=["克", "两"],
                default="克",
            ),
            # 老主程序不写 items_schema 会报错，新的好像不会？先这样
            ToolParameterInfo(
                name="without",
                param_type=ToolParamType.ARRAY,
                description="忌口的食材",
                required=False,
            ),
        ],
    )
    async def handle_scale_recipe(
        self,
        name: str,
        servings: int,
        unit: str = "克",
        without: list | None = None,
        **kwargs,
    ):
        if name not in RECIPES:
            return {"success": False, "error": f"菜单上没有「{name}」"}
        factor = servings / 2 / (50 if unit == "两" else 1)
        lines = []
        for part, grams in RECIPES[name][1].items():
            if part in (without or []):
                continue
            lines.append(f"{part} {grams * factor:g}{unit}")
        return {"success": True, "content": f"{name}（{servings}人份）：" + "，".join(lines)}

    @Tool(
        "random_dinner",
        description="想不出吃什么时随机推荐一道菜",
        parameters={
            "quick": {"type": "boolean", "description": "只要二十分钟以内的", "default": False},
            "seed": {"type": "integer", "description": "随机种子，测试用", "required": False},
        },
    )
    def handle_random_dinner(self, quick: bool = False, seed: int | None = None, **kwargs):
        # 不需要 await，就写成普通函数了
        names = [name for name, (minutes, _) in RECIPES.items() if minutes <= 20 or not quick]
        return True, f"今晚吃{random.Random(seed).choice(sorted(names))}吧"

    @Tool(
        TAKEAWAY_TOOL,
        description="向配置好的店家下一张外卖小票",
        parameters=[ToolParameterInfo(name="dish", description="想吃的东西")],
        core_tool=True,
    )
    async def handle_order_takeaway(self, dish: str, stream_id: str = "", **kwargs):
        shop = await self.ctx.config.get("takeaway.shop", "巷口面馆")
        await self.ctx.send.text(f"🧾 {shop}：{dish} ×1", stream_id)
        return {"success": True, "message": "小票已开", "stop_after_execution": True}

    @Tool("kitchen_selfcheck", description="内部自检", visibility="hidden")
    async def handle_selfcheck(self, **kwargs):
        return "厨房一切正常"

    # ── 命令 ─────────────────────────────────────────────

    @Command("takeaway_switch", description="开关外卖", pattern=r"^/外卖\s*(?P<state>开|关)$")
    async def handle_switch(
        self, stream_id: str = "", matched_groups: dict | None = None, **kwargs
    ):
        wanted = (matched_groups or {}).get("state") == "开"
        ok = await self._sync_takeaway(wanted)
        text = f"外卖已{'开' if wanted else '关'}" if ok else "开关失败，看看日志"
        await self.ctx.send.text(text, stream_id)
        return ok, text, 2


def create_plugin():
    return KitchenHelperPlugin()
