"""群聊周报：查消息库出统计"""

import datetime
import time
from collections import Counter
from typing import Annotated, Any, Dict, List, Optional

from nekro_agent.api.plugin import Arg, CmdCtl, CommandExecutionContext, CommandResponse
from nekro_agent.core import logger
from nekro_agent.core.core_utils import ConfigBase
from nekro_agent.models.db_chat_channel import DBChatChannel
from nekro_agent.models.db_chat_message import DBChatMessage
from nekro_agent.models.db_user import DBUser
from nekro_agent.schemas.agent_ctx import AgentCtx
from nekro_agent.services.plugin.base import NekroPlugin
from nekro_agent.services.plugin.schema import SandboxMethodType
from pydantic import Field

plugin = NekroPlugin(
    name="群聊周报",
    module_name="chat_report",
    description="统计发言、搜索聊天记录、查用户档案",
    version="1.0.3",
    author="dirac2",
    url="https://github.com/dirac2/nekro_plugin_chat_report",
)


@plugin.mount_config()
class ReportConfig(ConfigBase):
    """群聊周报配置"""

    HOURS: int = Field(default=168, title="统计小时数")
    MAX_RESULT: int = Field(default=20, title="搜索结果上限")


config = plugin.get_config(ReportConfig)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="发言统计", description="统计最近发言条数"
)
async def count_talk(_ctx: AgentCtx, hours: int = 0) -> Dict[str, int]:
    """统计最近若干小时内每个人的发言条数

    Args:
        hours (int): 小时数，0 使用默认值

    Returns:
        Dict[str, int]: 昵称 -> 条数
    """
    since = int(time.time()) - (hours or config.HOURS) * 3600
    rows: List[DBChatMessage] = (
        await DBChatMessage.filter(
            chat_key=_ctx.chat_key, send_timestamp__gte=since, is_recalled=False
        )
        .exclude(sender_id="-1")
        .order_by("send_timestamp")
        .limit(5000)
    )
    return dict(Counter(r.sender_nickname or r.sender_name for r in rows))


@plugin.mount_sandbox_method(
    SandboxMethodType.AGENT, name="搜索聊天记录", description="按关键词搜索历史消息"
)
async def search_history(
    _ctx: AgentCtx, keyword: str, user_id: Optional[str] = None, limit: int = 5
) -> str:
    """按关键词搜索聊天记录

    Args:
        keyword (str): 关键词
        user_id (Optional[str]): 只看某人的发言
        limit (int): 条数
    """
    query = DBChatMessage.filter(chat_key=_ctx.chat_key, content_text__icontains=keyword)
    if user_id:
        query = query.filter(platform_userid=user_id)
    total = await query.count()
    rows = (
        await query.order_by("-send_timestamp").offset(0).limit(min(limit, config.MAX_RESULT)).all()
    )
    if not rows:
        return f"没有搜到「{keyword}」"
    lines = [f"共 {total} 条:"]
    for r in reversed(rows):
        t = datetime.datetime.fromtimestamp(r.send_timestamp).strftime("%m-%d %H:%M")
        lines.append(f"[{t}] {r.sender_nickname}({r.platform_userid}): {r.content_text[:80]}")
    return "\n".join(lines)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="用户档案", description="查询用户在系统中的档案"
)
async def user_profile(_ctx: AgentCtx, user_id: str) -> Optional[Dict[str, Any]]:
    """查询用户档案

    Args:
        user_id (str): 平台用户 ID

    Returns:
        Optional[Dict[str, Any]]: 用户信息，没有则为 None
    """
    user: Optional[DBUser] = await DBUser.get_or_none(
        adapter_key=_ctx.adapter_key, platform_userid=user_id
    )
    if user is None:
        return None
    first = await DBChatMessage.filter(platform_userid=user_id).order_by("send_timestamp").first()
    return {
        "username": user.username,
        "unique_id": user.unique_id,
        "is_active": user.is_active,
        "first_said": first.content_text if first else "",
    }


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="频道资料", description="当前频道的资料")
async def channel_profile(_ctx: AgentCtx) -> Dict[str, Any]:
    """当前频道的资料"""
    channel = _ctx.db_chat_channel
    if channel is None:
        channel = await DBChatChannel.get_or_none(chat_key=_ctx.chat_key)
    if not channel:
        raise Exception("频道不存在")
    return {
        "chat_key": channel.chat_key,
        "channel_name": channel.channel_name,
        "is_active": channel.is_active,
        "start": int(channel.conversation_start_time.timestamp()),
        "type": str(getattr(channel.chat_type, "value", channel.chat_type)),
        "preset": (await channel.get_preset()).name,
    }


_SQL = """
SELECT sender_id, MAX(sender_nickname) AS nick, COUNT(*) AS cnt FROM chat_message
WHERE chat_key = $1 AND is_recalled = FALSE AND sender_id <> '-1'
GROUP BY sender_id ORDER BY cnt DESC LIMIT $2
"""


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="话唠榜", description="发言条数排行")
async def talk_rank(_ctx: AgentCtx, top: int = 3) -> List[Dict[str, Any]]:
    """发言条数排行

    Args:
        top (int): 前几名
    """
    from tortoise import Tortoise

    conn = Tortoise.get_connection("default")
    rows = await conn.execute_query_dict(_SQL, [_ctx.chat_key, top])
    return [{"nick": r["nick"], "count": int(r["cnt"])} for r in rows]


@plugin.mount_command(
    name="周报", description="本群发言概况", aliases=["weekly"], usage="周报 [小时]"
)
async def weekly_cmd(
    context: CommandExecutionContext,
    hours: Annotated[int, Arg("小时数", positional=True)] = 168,
) -> CommandResponse:
    since = int(time.time()) - hours * 3600
    n = (
        await DBChatMessage.filter(chat_key=context.chat_key, send_timestamp__gte=since)
        .exclude(sender_id="-1")
        .count()
    )
    ids = await DBChatMessage.filter(chat_key=context.chat_key).values_list(
        "platform_userid", flat=True
    )
    people = len({i for i in ids if i and i != "-1"})
    logger.info(f"周报 {context.chat_key}: {n} 条 / {people} 人")
    return CmdCtl.success(f"最近 {hours} 小时 {people} 人说了 {n} 条")
