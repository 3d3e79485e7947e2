"""摆卦老先生（旧版 src.plugin_system 写法）"""

from typing import Any, Dict, List, Optional, Tuple, Type

from src.plugin_system import (
    ActionActivationType,
    BaseAction,
    BaseCommand,
    BaseEventHandler,
    BasePlugin,
    BaseTool,
    ComponentInfo,
    ConfigField,
    EventType,
    ToolParamType,
    get_logger,
    register_plugin,
)
from src.plugin_system.base.config_types import section_meta

logger = get_logger("old_fortune")

HEXAGRAMS = ["乾", "坤", "屯", "蒙", "需", "讼", "师", "比"]


def cast(words: str) -> str:
    """同一句话永远是同一卦。"""
    return HEXAGRAMS[sum(words.encode("utf-8")) % len(HEXAGRAMS)]


class BlessAction(BaseAction):
    """给人一句吉利话"""

    action_name = "bless_someone"
    action_description = "给正在倒霉的人说一句吉利话"
    activation_type = ActionActivationType.KEYWORD
    activation_keywords = ["倒霉", "求好运"]
    action_parameters = {"who": "要祝福的人的名字", "wish": "愿望，可以不填"}
    action_require = ["有人抱怨运气不好时使用", "不要连续使用"]
    associated_types = ["text"]
    parallel_action = False

    async def execute(self) -> Tuple[bool, str]:
        who = self.action_data.get("who") or "施主"
        prefix = self.get_config("bless.prefix", "老夫送你")
        await self.send_text(f"{who}，{prefix}一个「{cast(who)}」字")
        return True, f"祝福了{who}"


class CastCommand(BaseCommand):
    """算一卦"""

    command_name = "cast"
    command_description = "算一卦：/算卦 所问之事"
    command_pattern = r"^/算卦\s+(?P<about>.+)$"

    async def execute(self) -> Tuple[bool, Optional[str], bool]:
        about = self.matched_groups.get("about", "").strip()
        if len(about) > int(self.get_config("cast.max_chars", 20)):
            await self.send_text("问得太长，老夫听不清")
            return False, "太长", True
        sign = cast(about)
        await self.send_text(f"所问「{about}」，得{sign}卦")
        logger.info(f"算卦 {about} -> {sign}")
        return True, f"得{sign}卦", True


class HexagramTool(BaseTool):
    """查卦"""

    name = "lookup_hexagram"
    description = "查询一句话对应的卦象"
    available_for_llm = True
    parameters = [
        ("words", ToolParamType.STRING, "要起卦的话", True, None),
        ("style", ToolParamType.STRING, "语气", False, ["文", "白"]),
    ]

    async def execute(self, function_args: Dict[str, Any]) -> Dict[str, Any]:
        sign = cast(function_args.get("words", ""))
        if function_args.get("style") == "文":
            return {"name": self.name, "content": f"卦曰：{sign}"}
        return {"name": self.name, "content": f"是{sign}卦"}


class SighHandler(BaseEventHandler):
    """听到叹气就记一笔"""

    event_type = EventType.ON_MESSAGE
    handler_name = "sigh_counter"
    handler_description = "统计叹气"
    weight = 5
    intercept_message = False
    sighs = 0

    async def execute(self, message: Any) -> Tuple[bool, bool, Optional[str], None, None]:
        text = getattr(message, "plain_text", None)
        if text is None and isinstance(message, dict):
            text = message.get("plain_text") or message.get("processed_plain_text")
        if text and "唉" in text:
            SighHandler.sighs += 1
            logger.info(f"第 {SighHandler.sighs} 声叹气")
        return True, True, None, None, None


class SighCommand(BaseCommand):
    """报数"""

    command_name = "sighs"
    command_description = "大家叹了几次气"
    command_pattern = r"^/叹气$"

    async def execute(self) -> Tuple[bool, Optional[str], int]:
        await self.send_text(f"一共 {SighHandler.sighs} 声叹气")
        return True, None, 2


@register_plugin
class OldFortunePlugin(BasePlugin):
    """摆卦老先生"""

    plugin_name: str = "old_fortune"
    enable_plugin: bool = True
    dependencies: List[str] = []
    python_dependencies: List[str] = []
    config_file_name: str = "config.toml"

    config_section_descriptions = {
        "plugin": section_meta("插件开关", order=1),
        "cast": section_meta("算卦", order=2),
        "bless": "祝福",
    }

    config_schema: dict = {
        "plugin": {
            "enabled": ConfigField(type=bool, default=True, description="是否启用"),
            "config_version": ConfigField(type=str, default="1.0.0", description="配置版本"),
        },
        "cast": {
            "max_chars": ConfigField(type=int, default=12, description="最长多少字", min=1, max=50),
        },
        "bless": {
            "prefix": ConfigField(type=str, default="老夫赠你", description="开场白"),
        },
    }

    def get_plugin_components(self) -> List[Tuple[ComponentInfo, Type]]:
        return [
            (BlessAction.get_action_info(), BlessAction),
            (CastCommand.get_command_info(), CastCommand),
            (HexagramTool.get_tool_info(), HexagramTool),
            (SighHandler.get_handler_info(), SighHandler),
            (SighCommand.get_command_info(), SighCommand),
        ]
