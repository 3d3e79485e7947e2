"""铁匣群管：群管理工具箱（需要 NapCat 适配器）。"""

from typing import Any, Dict, Optional

from maibot_sdk import Command, Field, MaiBotPlugin, PluginConfigBase, Tool
from maibot_sdk.types import ToolParameterInfo, ToolParamType

QQ_PARAM = ToolParameterInfo(
    name="qq", param_type=ToolParamType.STRING, description="对方的 QQ 号", required=True
)


class PluginSection(PluginConfigBase):
    """基础设置"""

    __ui_label__ = "基础设置"
    enabled: bool = Field(default=True, description="启用")
    config_version: str = Field(default="1.1.0", description="配置版本")


class AdminSection(PluginConfigBase):
    """谁能用"""

    __ui_label__ = "权限"
    users: list[str] = Field(default_factory=lambda: ["10001"], description="管理员 QQ")
    max_minutes: int = Field(default=60, ge=1, le=43200, description="单次禁言上限（分钟）")


class WardenConfig(PluginConfigBase):
    """铁匣群管"""

    plugin: PluginSection = Field(default_factory=PluginSection)
    admin: AdminSection = Field(default_factory=AdminSection)


def _int(value: Any) -> int:
    try:
        return int(str(value).strip())
    except (TypeError, ValueError):
        return 0


def _unwrap(response: Any) -> Any:
    """不同版本的适配器/SDK 包了不同层数，能拆就拆。"""
    for _ in range(3):
        if not isinstance(response, dict):
            break
        if response.get("success") is False:
            raise RuntimeError(str(response.get("error") or "调用失败"))
        if "result" in response and "success" in response:
            response = response["result"]
        elif set(response) >= {"status", "retcode", "data"}:
            response = response["data"]
        else:
            break
    return response


class GroupWardenPlugin(MaiBotPlugin):
    config_model = WardenConfig

    async def on_load(self) -> None:
        apis = await self.ctx.api.list()
        names = [api.get("name", "") for api in apis if isinstance(api, dict)] if apis else []
        napcat = [name for name in names if "adapter.napcat" in name]
        if napcat:
            self.ctx.logger.info("NapCat API %d 个", len(napcat))
        else:
            self.ctx.logger.warning("没看到 NapCat 的 API，先加载着")

    async def on_unload(self) -> None:
        pass

    async def on_config_update(self, scope: str, config_data: Dict[str, Any], version: str) -> None:
        if scope == "self":
            self.set_plugin_config(config_data)

    async def _napcat(self, api: str, **kwargs: Any) -> Any:
        return _unwrap(await self.ctx.api.call(f"adapter.napcat.{api}", **kwargs))

    async def _mute(self, group: int, qq: int, minutes: int) -> str:
        minutes = max(0, min(minutes, self.config.admin.max_minutes))
        await self._napcat("group.set_group_ban", group_id=group, user_id=qq, duration=minutes * 60)
        return f"已禁言 {qq} {minutes} 分钟" if minutes else f"已解除 {qq} 的禁言"

    # ── 命令 ──

    @Command(
        "warden_mute",
        description="/禁言 @某人 分钟 或 /禁言 QQ 分钟",
        pattern=r"^/禁言\s*(?P<who>.+?)\s+(?P<minutes>\d{1,5})$",
    )
    async def cmd_mute(self, **kwargs: Any):
        stream_id = kwargs["stream_id"]
        if str(kwargs.get("user_id", "")) not in self.config.admin.users:
            await self.ctx.send.text("你不是管理员", stream_id)
            return False, "无权限", 2
        groups = kwargs.get("matched_groups") or {}
        target = _int(groups.get("who"))
        for segment in (kwargs.get("message") or {}).get("raw_message") or []:
            if segment.get("type") == "at" and isinstance(segment.get("data"), dict):
                target = _int(segment["data"].get("target_user_id")) or target
        if not target:
            await self.ctx.send.text("要禁言谁？", stream_id)
            return False, "缺少目标", 2
        try:
            text = await self._mute(_int(kwargs.get("group_id")), target, _int(groups["minutes"]))
        except Exception as exc:
            self.ctx.logger.error("禁言失败: %s", exc, exc_info=True)
            text = f"禁言失败：{exc}"
        await self.ctx.send.text(text, stream_id)
        return True, text, 2

    # ── 工具 ──

    @Tool(
        "mute_member",
        description="禁言群成员，minutes 为 0 表示解除。只有管理员要求时才可以用",
        parameters=[
            QQ_PARAM,
            ToolParameterInfo(name="minutes", param_type="integer", description="分钟数"),
        ],
    )
    async def tool_mute(self, qq: str, minutes: int, group_id: str = "", **kwargs: Any):
        if str(kwargs.get("user_id") or "") not in self.config.admin.users:
            return {"success": False, "error": "提出要求的人不是管理员"}
        if not group_id:
            return {"success": False, "error": "只能在群里用"}
        return {"success": True, "content": await self._mute(_int(group_id), _int(qq), minutes)}

    @Tool("get_member_card", description="查询群成员的名片、身份", parameters=[QQ_PARAM])
    async def tool_card(self, qq: str, group_id: str = "", **kwargs: Any) -> Dict[str, Any]:
        info: Optional[dict] = await self._napcat(
            "group.get_group_member_info",
            group_id=_int(group_id),
            user_id=_int(qq),
            no_cache=True,
        )
        if not isinstance(info, dict):
            return {"success": False, "content": f"没有找到 {qq}"}
        name = info.get("card") or info.get("nickname") or qq
        return {
            "success": True,
            "content": f"{qq} 的名片是「{name}」，身份 {info.get('role', '未知')}",
        }

    @Tool("poke_member", description="戳一戳群成员", parameters=[QQ_PARAM], core_tool=True)
    async def tool_poke(self, qq: str, group_id: str = "", **kwargs: Any):
        await self._napcat("message.send_poke", user_id=_int(qq), group_id=_int(group_id))
        return {"success": True, "message": f"戳了 {qq} 一下"}

    @Tool(
        "set_member_card",
        description="修改群成员的名片",
        parameters={
            "qq": {"type": "string", "description": "QQ 号", "required": True},
            "card": {"type": "string", "description": "新名片，留空清除", "default": ""},
        },
    )
    async def tool_set_card(self, qq: str, card: str = "", group_id: str = "", **kwargs: Any):
        # 没有强类型封装的动作走通用入口
        await self._napcat(
            "action.call",
            action_name="set_group_card",
            params={"group_id": _int(group_id), "user_id": _int(qq), "card": card},
        )
        return f"{qq} 的名片改成了「{card}」"

    @Tool(
        "recall_message",
        description="撤回一条消息",
        parameters=[ToolParameterInfo(name="message_id", description="要撤回的消息 ID")],
    )
    async def tool_recall(self, message_id: str, **kwargs: Any):
        try:
            await self._napcat("message.delete_msg", message_id=_int(message_id))
        except Exception as exc:
            return {"success": False, "error": f"撤回失败: {exc}"}
        return {"success": True, "content": "已撤回"}


def create_plugin():
    return GroupWardenPlugin()
