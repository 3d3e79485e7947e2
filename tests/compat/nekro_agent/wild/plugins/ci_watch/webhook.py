import hashlib
import hmac
import json
from typing import Any, Dict

from nekro_agent.api import core
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.services.message_service import message_service
from nekro_agent.services.plugin.base import SandboxMethodType

from .models import Subscriptions
from .plugin import config, plugin


@plugin.mount_webhook_method(endpoint="ci_status", name="CI 状态", description="CI 构建状态回调")
async def on_ci_status(_ctx: AgentCtx) -> Dict[str, Any]:
    """CI 构建状态回调"""
    req = _ctx.webhook_request
    if not req:
        raise ValueError("需要 webhook_request")
    headers = {k.lower(): v for k, v in req.headers.items()}
    body = req.body
    if config.WEBHOOK_SECRET:
        raw = json.dumps(body, separators=(",", ":")).encode()
        sign = hmac.new(config.WEBHOOK_SECRET.encode(), raw, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(sign, headers.get("x-ci-signature", "")):
            core.logger.warning("CI webhook 签名不对")
            return {"ok": False}
    repo, status = body["repo"], body.get("status", "unknown")
    subs = await Subscriptions.load()
    for chat_key in subs.channels(repo):
        await message_service.push_system_message(
            chat_key=chat_key,
            agent_messages=f"[CI] {repo} 构建 {status}: {body.get('title', '')}",
            trigger_agent=status not in config.QUIET_STATUS,
        )
    return {"ok": True, "pushed": len(subs.channels(repo))}


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR, name="订阅CI", description="让当前频道接收一个仓库的 CI 状态"
)
async def subscribe_ci(_ctx: AgentCtx, repo: str = "*") -> str:
    """订阅仓库的 CI 状态

    Args:
        repo (str): 仓库名，* 表示全部
    """
    subs = await Subscriptions.load()
    channels = subs.repos.setdefault(repo, [])
    if _ctx.chat_key not in channels:
        channels.append(_ctx.chat_key)
    await subs.save()
    return f"已订阅 {repo}"


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="查看CI订阅", description="当前频道订阅了哪些仓库"
)
async def list_ci(_ctx: AgentCtx) -> list:
    subs = await Subscriptions.load()
    return [repo for repo, channels in subs.repos.items() if _ctx.chat_key in channels]
