"""A whitelist: messages of other people do not wake the bot. Forbidden words are counted."""

import json
import time
from datetime import datetime, timedelta
from typing import Optional, Set

from pydantic import Field

from nekro_agent.api.core import logger
from nekro_agent.api.message import ChatMessage
from nekro_agent.api.plugin import (
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    CommandResponse,
    ConfigBase,
    NekroPlugin,
)
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.api.signal import MsgSignal
from nekro_agent.models.db_chat_channel import DBChatChannel
from nekro_agent.models.db_preset import DBPreset
from nekro_agent.models.db_user import DBUser
from nekro_agent.schemas.chat_message import ChatMessageSegmentType

plugin = NekroPlugin(
    name="Gatekeeper",
    module_name="gatekeeper",
    description="白名单",
    version="1.0.0",
    author="guard",
    url="",
)


@plugin.mount_config()
class GateConfig(ConfigBase):
    """名单"""

    ENABLED: bool = Field(default=True, title="启用")
    ALLOWED_USERS: list[str] = Field(default=["lin"], title="白名单用户")
    BANNED_WORDS: list[str] = Field(default_factory=lambda: ["spam"], title="禁词")


def _allowed() -> Set[str]:
    return set(plugin.get_config(GateConfig).ALLOWED_USERS)


@plugin.mount_on_user_message()
async def check(_ctx: AgentCtx, message: ChatMessage) -> Optional[MsgSignal]:
    """检查"""
    cfg = plugin.get_config(GateConfig)
    if not cfg.ENABLED:
        return None
    assert _ctx.db_user is not None
    assert _ctx.db_user.platform_userid == message.platform_userid == message.sender_id
    if message.chat_type == "private" and message.content_text.startswith("wake up"):
        return MsgSignal.FORCE_TRIGGER
    if any(word in message.content_text for word in cfg.BANNED_WORDS):
        logger.warning(f"{message.sender_nickname} 发送了禁词")
        channel: DBChatChannel = await DBChatChannel.get_channel(chat_key=message.chat_key)
        hits = json.loads(await plugin.store.get(chat_key=channel.chat_key, store_key="h") or "[]")
        hits.append({"user": message.sender_id, "at": int(time.time()), "is_tome": message.is_tome})
        await plugin.store.set(
            chat_key=channel.chat_key, store_key="h", value=json.dumps(hits, ensure_ascii=False)
        )
        return MsgSignal.BLOCK_ALL
    if any(seg.type == ChatMessageSegmentType.IMAGE.value for seg in message.content_data):
        return MsgSignal.BLOCK_TRIGGER
    if message.sender_id not in _allowed():
        return MsgSignal.BLOCK_TRIGGER
    return MsgSignal.CONTINUE


@plugin.mount_command(
    name="gate_add",
    description="添加白名单",
    aliases=["gate-allow"],
    permission=CommandPermission.SUPER_USER,
    usage="gate_add <user>",
    category="管理",
)
async def gate_add(context: CommandExecutionContext, user: str) -> CommandResponse:
    cfg = plugin.get_config(GateConfig)
    if user in cfg.ALLOWED_USERS:
        return CmdCtl.failed(f"{user} 已在白名单中")
    cfg.ALLOWED_USERS = [*cfg.ALLOWED_USERS, user]
    plugin.save_config(cfg)
    return CmdCtl.success(f"已添加 {user}")


@plugin.mount_command(name="gate_ban", description="封禁", permission=CommandPermission.SUPER_USER)
async def gate_ban(context: CommandExecutionContext, user: str, minutes: int = 10):
    found = await DBUser.get_by_union_id(context.adapter_key, user)
    if not found:
        return CmdCtl.failed(f"{user}?")
    found.ban_until = datetime.now() + timedelta(minutes=minutes)
    await found.save()
    return CmdCtl.success(f"{found.username} 已封禁")


@plugin.mount_command(name="gate_play", description="扮演", permission=CommandPermission.SUPER_USER)
async def gate_play(context: CommandExecutionContext, name: str, content: str):
    preset, created = await DBPreset.get_or_create(name=name, defaults={"content": content})
    ctx = await AgentCtx.create_by_chat_key(context.chat_key)
    assert await ctx.set_preset(preset.id)
    effective = await ctx.get_effective_preset_by_id()
    return CmdCtl.success(f"{effective.name} ({created})")


@plugin.mount_command(
    name="gate_close", description="关闭", permission=CommandPermission.SUPER_USER
)
async def gate_close(context: CommandExecutionContext, open_again: bool = False):
    channel = await DBChatChannel.get_channel(chat_key=context.chat_key)
    await channel.set_active(open_again)
    if open_again:
        await channel.reset_channel()
    return CmdCtl.success(f"{channel.channel_name}: {channel.is_active}")
