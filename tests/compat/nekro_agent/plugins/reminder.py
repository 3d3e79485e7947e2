"""Sets one-time and repeated timers. It also has functions that run when the plugin starts and
stops."""

import time
from typing import Optional

from nekro_agent.api import core, timer
from nekro_agent.api import recurring_timer as recurring
from nekro_agent.api.plugin import NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

plugin = NekroPlugin("Reminder", "reminder", "提醒", "0.1.0", "clockmaker", "")
events: list[str] = []


@plugin.mount_init_method()
async def init() -> None:
    """准备"""
    events.append("init")
    (plugin.get_plugin_data_dir() / "log.txt").write_text("init", encoding="utf-8")


@plugin.on_enabled()
async def enabled() -> None:
    events.append("enabled")


@plugin.on_disabled()
async def disabled() -> None:
    events.append("disabled")


@plugin.mount_on_channel_reset()
async def reset(_ctx: AgentCtx) -> None:
    await timer.clear_timers(_ctx.chat_key)


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "remind", "设置提醒")
async def remind(_ctx: AgentCtx, seconds: int, what: str, chat_key: Optional[str] = None) -> str:
    """Set a reminder.

    Args:
        seconds (int): From now.
        what (str): About what.
        chat_key (Optional[str]): Where.
    """
    ok = await timer.set_timer(chat_key or _ctx.chat_key, int(time.time()) + seconds, what)
    if not ok:
        raise ValueError("the timer was not taken")
    pending = await timer.get_timers(_ctx.chat_key)
    core.logger.info(f"{len(pending)} timers")
    return f"reminder set: {what}; {len(pending)} pending"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "remind_daily", "每日提醒")
async def remind_daily(_ctx: AgentCtx, cron: str, what: str) -> str:
    """Set a daily reminder.

    Args:
        cron (str): When, five fields.
        what (str): About what.
    """
    recurring.validate_cron_expr(cron)
    job = await recurring.create_cron_job(
        chat_key=_ctx.chat_key,
        cron_expr=cron,
        event_desc=what,
        timezone="Asia/Shanghai",
        workday_mode="mon_fri",
        title="daily",
    )
    jobs = await recurring.list_jobs(_ctx.chat_key)
    return f"{recurring.get_job_id(job)}: {len(jobs)}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "all_daily", "所有提醒")
async def all_daily(_ctx: AgentCtx) -> str:
    """List daily reminders without naming a chat."""
    return ", ".join(job.event_desc for job in await recurring.list_jobs())


@plugin.mount_cleanup_method()
async def clean_up() -> None:
    """清理"""
    events.append("cleanup")
