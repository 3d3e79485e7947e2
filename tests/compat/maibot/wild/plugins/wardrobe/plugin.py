"""衣橱：穿搭推荐。1.x 的配置会自动迁移。"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maibot_sdk import API, CONFIG_RELOAD_SCOPE_SELF, Command, HomeCard, MaiBotPlugin, Tool
from maibot_sdk.types import ToolParameterInfo, ToolParamType

from .settings import CONFIG_VERSION, Garment, WardrobeConfig


class WardrobePlugin(MaiBotPlugin):
    """穿搭推荐插件。"""

    config_model = WardrobeConfig

    def normalize_plugin_config(
        self, config_data: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], bool]:
        """1.x 把城市和颜色放在 [general] 里，颜色还是逗号分隔的字符串。"""
        data = dict(config_data or {})
        migrated = False
        old = data.pop("general", None)
        if isinstance(old, Mapping):
            migrated = True
            weather = dict(data.get("weather") or {})
            style = dict(data.get("style") or {})
            if old.get("city"):
                weather.setdefault("city", old["city"])
            if isinstance(old.get("colors"), str):
                style.setdefault(
                    "colors", [c.strip() for c in old["colors"].split(",") if c.strip()]
                )
            if weather:
                data["weather"] = weather
            if style:
                data["style"] = style
        style = data.get("style")
        if isinstance(style, Mapping) and isinstance(style.get("boldness"), (int, float)):
            clamped = min(1.0, max(0.0, float(style["boldness"])))
            if clamped != style["boldness"]:
                data["style"] = {**style, "boldness": clamped}
                migrated = True
        if migrated:
            data["plugin"] = {**(data.get("plugin") or {}), "config_version": CONFIG_VERSION}
        normalized, changed = super().normalize_plugin_config(data)
        return normalized, changed or migrated

    async def on_load(self) -> None:
        everything = await self.ctx.config.get_all()
        self.ctx.logger.info(
            "衣橱已加载：%s，%d 件衣服，配置 %d 节",
            self.config.weather.city,
            len(self.config.style.garments),
            len(everything),
        )

    async def on_unload(self) -> None:
        self.ctx.logger.info("衣橱关门")

    async def on_config_update(self, scope: str, config_data: dict[str, Any], version: str) -> None:
        if scope != CONFIG_RELOAD_SCOPE_SELF:
            return
        # self.config 这时候已经是新的了
        self.ctx.logger.info("衣橱换季：%s / %s", self.config.weather.city, self.config.style.taste)

    def _pick(self, degrees: int) -> list[Garment]:
        wanted = max(0, min(10, (30 - degrees) // 3))
        garments = sorted(self.config.style.garments, key=lambda one: abs(one.warmth - wanted))
        return garments[:1]

    def _advice(self, degrees: int, occasion: str) -> str:
        names = "、".join(one.name for one in self._pick(degrees)) or "随便"
        return self.config.message.template.format(
            city=self.config.weather.city, degrees=degrees, occasion=occasion, garments=names
        )

    @API("suggest", description="给别的插件用的穿搭建议", version="1", public=True)
    async def api_suggest(
        self, degrees: int, occasion: str = "上班", **kwargs: Any
    ) -> dict[str, Any]:
        return {"advice": self._advice(int(degrees), occasion)}

    @HomeCard(
        "wardrobe_card",
        title="衣橱",
        content=[{"type": "stat", "label": "衣服", "value": "2"}],
        link_url="/plugin-config?plugin=hanger.wardrobe",
        link_label="去配置",
    )
    async def home_card(self) -> None:
        return None

    @Tool(
        "outfit_advice",
        description="根据气温和场合推荐穿什么",
        parameters=[
            ToolParameterInfo(
                name="degrees", param_type=ToolParamType.NUMBER, description="气温，摄氏度"
            ),
            ToolParameterInfo(
                name="occasion",
                description="场合",
                required=False,
                enum_values=["上班", "约会", "遛狗"],
                default="上班",
            ),
        ],
    )
    async def handle_advice(self, degrees: float, occasion: str = "上班", **kwargs: Any):
        if occasion not in self.config.style.occasions:
            return {"success": False, "error": f"还不会搭配「{occasion}」"}
        return self._advice(int(degrees), occasion)

    @Command("wardrobe_show", description="看看配置", pattern=r"^/衣橱$")
    async def handle_show(self, stream_id: str = "", **kwargs: Any):
        style, weather = self.config.style, self.config.weather
        raw = self.get_plugin_config_data()
        text = (
            f"{weather.city} {style.taste} {'/'.join(style.colors)} {style.boldness:g} "
            f"{'、'.join(one.name for one in style.garments)} v{raw['plugin']['config_version']}"
        )
        await self.ctx.send.text(text, stream_id)
        return True, text, True

    @Command("wardrobe_city", description="读原始配置", pattern=r"^/衣橱城市$")
    async def handle_city(self, stream_id: str = "", **kwargs: Any):
        city = await self.ctx.config.get("weather.city", "没有")
        missing = await self.ctx.config.get("weather.no_such_key", "缺省")
        await self.ctx.send.text(f"{city} {missing}", stream_id)
        return True, str(city), True


def create_plugin() -> WardrobePlugin:
    return WardrobePlugin()
