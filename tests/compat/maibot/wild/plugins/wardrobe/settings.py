"""衣橱的配置模型，什么控件都有一点。"""

from typing import Any, Literal

from pydantic import field_validator

from maibot_sdk import Field, PluginConfigBase

CONFIG_VERSION = "2.0.0"


def _ui(label: str, hint: str = "", **extra: Any) -> dict[str, Any]:
    return {"label": label, "hint": hint, **extra}


class PluginSection(PluginConfigBase):
    """插件本身"""

    __ui_label__ = "插件"
    __ui_icon__ = "package"
    __ui_order__ = 0
    __ui_i18n__ = {"en_US": {"title": "Plugin", "description": "The plugin itself"}}

    enabled: bool = Field(default=True, description="是否启用", json_schema_extra=_ui("启用"))
    config_version: str = Field(
        default=CONFIG_VERSION,
        description="配置版本",
        json_schema_extra=_ui("配置版本", "请勿修改", hidden=True, disabled=True),
    )


class Garment(PluginConfigBase):
    """一件衣服"""

    name: str = Field(default="白衬衫", description="名称")
    warmth: int = Field(default=3, ge=0, le=10, description="保暖程度")
    seasons: list[Literal["春", "夏", "秋", "冬"]] = Field(
        default_factory=lambda: ["春", "秋"], description="季节"
    )


class StyleSection(PluginConfigBase):
    """风格"""

    __ui_label__ = "风格"
    __ui_icon__ = "shirt"
    __ui_order__ = 1

    taste: Literal["简约", "复古", "运动"] = Field(
        default="简约", description="口味", json_schema_extra=_ui("口味")
    )
    occasions: list[Literal["上班", "约会", "遛狗"]] = Field(
        default_factory=lambda: ["上班", "遛狗"],
        description="支持的场合",
        json_schema_extra=_ui("场合", min_items=1, max_items=3),
    )
    colors: list[str] = Field(default_factory=lambda: ["灰", "藏青"], description="喜欢的颜色")
    boldness: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        description="大胆程度",
        json_schema_extra=_ui("大胆程度", "越大越花", step=0.05),
    )
    garments: list[Garment] = Field(
        default_factory=lambda: [Garment(), Garment(name="羽绒服", warmth=9, seasons=["冬"])],
        description="衣服",
    )


class WeatherSection(PluginConfigBase):
    """天气"""

    __ui_label__ = "天气"
    __ui_order__ = 2

    city: str = Field(
        default="杭州", description="城市", json_schema_extra=_ui("城市", placeholder="例如 杭州")
    )
    api_key: str = Field(
        default="",
        description="天气服务密钥",
        json_schema_extra=_ui(
            "密钥", input_type="password", depends_on="online", depends_value=True
        ),
    )
    online: bool = Field(default=False, description="联网查询")
    aliases: dict[str, str] = Field(default_factory=dict, description="城市别名")
    timeout: float | None = Field(default=None, description="超时秒数，空着用默认")

    @field_validator("city", mode="before")
    @classmethod
    def _strip(cls, value: Any) -> str:
        return str(value or "").strip() or "杭州"


class MessageSection(PluginConfigBase):
    """文案"""

    __ui_label__ = "文案"
    __ui_order__ = 3

    template: str = Field(
        default="今天{city}{degrees}度，{occasion}建议穿：{garments}",
        description="回复模板",
        json_schema_extra=_ui("模板", **{"x-widget": "textarea", "rows": 4}),
    )


class WardrobeConfig(PluginConfigBase):
    """衣橱完整配置"""

    plugin: PluginSection = Field(default_factory=PluginSection)
    style: StyleSection = Field(default_factory=StyleSection)
    weather: WeatherSection = Field(default_factory=WeatherSection)
    message: MessageSection = Field(default_factory=MessageSection)
