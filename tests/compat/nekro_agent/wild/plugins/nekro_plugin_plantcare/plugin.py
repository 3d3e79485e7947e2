"""插件定义和配置"""

from __future__ import annotations

from typing import List, Literal

from nekro_agent.api import i18n
from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin
from pydantic import Field

plugin = NekroPlugin(
    name="花草养护小管家",
    module_name="nekro_plugin_plantcare",
    description="登记群友的盆栽，记录浇水，生成养护清单",
    version="0.3.1",
    author="YunShang",
    url="https://github.com/YunShang/nekro-plugin-plantcare",
    support_adapter=["onebot_v11", "discord", "telegram"],
    i18n_name=i18n.i18n_text(zh_CN="花草养护小管家", en_US="Plant Care"),
    i18n_description=i18n.i18n_text(
        zh_CN="登记群友的盆栽，记录浇水，生成养护清单",
        en_US="Keeps a list of everybody's pot plants and when they want water",
    ),
    allow_sleep=True,
    sleep_brief="用户聊到养花、浇水、盆栽时激活。",
)


@plugin.mount_config()
class PlantCareConfig(ConfigBase):
    """花草养护配置"""

    DEFAULT_INTERVAL: int = Field(default=7, ge=1, le=90, title="默认浇水间隔（天）")
    MAX_PLANTS: int = Field(default=20, title="单频道最多植物数", description="超出后拒绝登记")
    PROMPT_STYLE: Literal["short", "full"] = Field(default="short", title="提示词详略")
    DRY_SPECIES: List[str] = Field(
        default=["仙人掌", "多肉"],
        title="耐旱品种",
        description="这些品种的浇水间隔自动翻倍",
        json_schema_extra=ExtraField(sub_item_name="品种").model_dump(),
    )
    API_TOKEN: str = Field(
        default="",
        title="天气 Token",
        description="预留，暂时没用到",
        json_schema_extra=ExtraField(is_secret=True, placeholder="不填也行").model_dump(),
    )


config: PlantCareConfig = plugin.get_config(PlantCareConfig)
store = plugin.store
