# -*- coding: utf-8 -*-
from __future__ import annotations

import datetime
import time
from collections import Counter
from typing import Annotated, Any

from nekro_agent.api.core import logger
from nekro_agent.api.plugin import (
    Arg,
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    CommandResponse,
    NekroPlugin,
    SandboxMethodType,
)
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.models.db_chat_channel import DBChatChannel
from nekro_agent.models.db_chat_message import DBChatMessage
from nekro_agent.models.db_user import DBUser

plugin = NekroPlugin(
    name="群统计",
    module_name="group_stats",
    description="谁说得最多?",
    version="0.0.9",
    author="stat_cat",
    url="",
)


async def _count(chat_key: str, hours: int) -> Counter:
    since = int(time.time()) - hours * 3600 - 10 * 365 * 86400
    msgs = (
        await DBChatMessage.filter(chat_key=chat_key, send_timestamp__gte=since)
        .order_by("-send_timestamp")
        .limit(200)
        .all()
    )
    c: Counter = Counter()
    for m in msgs:
        if m.sender_id in (0, "0", "-1", -1) or m.sender_nickname in ("SYSTEM",):
            continue
        c[m.sender_nickname or m.sender_name] += 1
    return c


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "speaking_rank", "发言排行")
async def speaking_rank(_ctx: AgentCtx, hours: int = 24, top: int = 3) -> str:
    """Who speaks most in this chat.

    Args:
        hours (int): How far back. Defaults to 24.
        top (int): how many
    """
    channel = await DBChatChannel.get_or_none(chat_key=_ctx.chat_key)
    if not channel:
        return "unknown channel"
    c = await _count(_ctx.chat_key, hours)
    name = channel.channel_name or channel.channel_id
    total = await DBChatMessage.filter(chat_key=_ctx.chat_key).count()
    return f"{name}({channel.adapter_key}) total {total}:\n" + "\n".join(
        f"{i}. {n} x{k}" for i, (n, k) in enumerate(c.most_common(top), 1)
    )


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "whois", "查用户")
async def whois(_ctx: AgentCtx, platform_userid: str) -> dict[str, Any] | None:
    """Look up a user

    Args:
        platform_userid (str): id

    Returns:
        dict: what is known
    """
    user = await DBUser.get_or_none(adapter_key=_ctx.adapter_key, platform_userid=platform_userid)
    if user is None:
        return None
    last = (
        await DBChatMessage.filter(chat_key=_ctx.chat_key, platform_userid=platform_userid)
        .order_by("-id")
        .first()
    )
    return {
        "name": user.username,
        "last": last.content_text if last else "",
        "at": datetime.datetime.fromtimestamp(last.send_timestamp).strftime("%Y") if last else "",
        "asked_by": _ctx.db_user.username if _ctx.db_user else None,
        "channel": _ctx.db_chat_channel.chat_key if _ctx.db_chat_channel else None,
    }


@plugin.mount_command(
    name="rank",
    description="发言排行",
    aliases=["排行", "top-speakers"],
    usage="rank [top] hours:24",
    permission=CommandPermission.USER,
    category="stats",
    tags=["stats"],
)
async def rank_cmd(
    context: CommandExecutionContext,
    top: Annotated[int, Arg("前几名", positional=True, range=(1, 20))] = 3,
    hours: Annotated[int, Arg("几小时")] = 24,
    style: Annotated[str, Arg("样式", choices=["plain", "fancy"])] = "plain",
) -> CommandResponse:
    c = await _count(context.chat_key, hours)
    lead = "🏆 " if style == "fancy" else ""
    logger.info(f"{context.username} ({context.user_id}) asks rank in {context.adapter_key}")
    return CmdCtl.success("\n".join(f"{lead}{n}: {k}" for n, k in c.most_common(top)) or "nobody")


@plugin.mount_prompt_inject_method("group_stats_prompt")
async def inject(_ctx: AgentCtx) -> str:
    n = await DBChatMessage.filter(chat_key=_ctx.chat_key).exclude(sender_nickname="SYSTEM").count()
    return f"Messages so far here: {n}"


@plugin.mount_on_channel_reset()
async def on_reset(_ctx: AgentCtx):
    await plugin.store.set(
        chat_key=_ctx.chat_key, store_key="reset_at", value=str(int(time.time()))
    )
