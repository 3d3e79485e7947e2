"""Lets the agent set timers. A timer wakes the agent of its chat at a certain time, once or
repeatedly."""

from nekro_core.api import recurring_timer, timer
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(
    name="Timer",
    module_name="timer",
    description="Wake the bot at a time: reminders, alarms, daily greetings.",
    version="0.1.0",
    author="nekro",
    is_builtin=True,
    # To set a timer, a model must know the time and calculate. A small model does neither.
    for_small_models=False,
)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, "set_timer", "Be woken in this chat at a time, once.", confirms=True
)
async def set_timer(_ctx: AgentCtx, event: str, at: str = "", in_minutes: float = 0) -> str:
    """Be woken in this chat once: to remind somebody, or to look again at something.

    Tell the person that you will: nothing is sent by itself.

    Args:
        event: What to do then, with all that you must know: who, what, why.
        at: Local time: 2026-11-23 07:30.
        in_minutes: From now, instead of at.

    Returns:
        The timer's id and time.

    Example:
        set_timer("Remind Lin (user 10001) of the cake in the oven", in_minutes=25)
    """
    if bool(at) == bool(in_minutes):
        raise ToolFailure("set_timer: give either at or in_minutes")
    due = timer.moment_of(at) if at else timer.now() + in_minutes * 60
    if due <= timer.now():
        now = timer.local_time_of(timer.now())
        raise ToolFailure(f"set_timer: that time is over; it is {now} now")
    before = {each.timer_id for each in timer.get_timers(_ctx.chat_key)}
    if not await timer.set_timer(_ctx.chat_key, due, event):
        raise ToolFailure("set_timer: no: an empty or very long event, or too many timers here")
    made = [each for each in timer.get_timers(_ctx.chat_key) if each.timer_id not in before]
    return f"{made[0].timer_id} at {timer.local_time_of(due)}" if made else "it is due now"


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL,
    "create_recurring_timer",
    "Be woken in this chat again and again.",
    confirms=True,
)
async def create_recurring_timer(
    _ctx: AgentCtx,
    event: str,
    cron: str,
    days: str = "none",
    timezone: str = "",
    title: str = "",
) -> str:
    """Be woken in this chat again and again.

    Args:
        event: What to do each time.
        cron: "30 7 * * *" is daily at 7:30.
        days: Only on these: mon_fri, weekend, cn_workday or cn_restday (with China's holidays).
        timezone: Such as Asia/Shanghai; empty is the bot's.

    Returns:
        The timer's id and first time.

    Example:
        create_recurring_timer("Say good morning to everybody", "30 7 * * *", days="mon_fri")
    """
    job = await recurring_timer.create_cron_job(
        _ctx.chat_key, cron, event, timezone, days, title or None
    )
    return _line(job)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "list_timers", "The timers of this chat.")
async def list_timers(_ctx: AgentCtx) -> list[str]:
    """The timers of this chat, each with its id, its next time and what it is for."""
    once = [
        f"{each.timer_id} at {timer.local_time_of(each.trigger_time)}: {each.event_desc}"
        for each in timer.get_timers(_ctx.chat_key)
    ]
    return once + [_line(job) for job in await recurring_timer.list_jobs(_ctx.chat_key)]


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL,
    "change_timer",
    "Cancel, pause or resume a timer of this chat.",
    confirms=True,
)
async def change_timer(_ctx: AgentCtx, timer_id: str, action: str = "cancel") -> str:
    """Cancel a timer of this chat, or let a recurring one rest and go on.

    Args:
        timer_id: From list_timers.
        action: cancel, pause or resume.
    """
    # A model may give the id as a line of list_timers shows it: "[ca44f06e7234] Standup".
    timer_id = timer_id.strip().removeprefix("[").partition("]")[0].strip()
    if action == "cancel":
        if await timer.clear_timer(_ctx.chat_key, timer_id):
            return f"{timer_id} is cancelled"
        raise ToolFailure(f"change_timer: this chat has no timer {timer_id!r}")
    if action not in ("pause", "resume"):
        raise ToolFailure(f"change_timer: {action!r}; expected cancel, pause or resume")
    change = recurring_timer.pause_job if action == "pause" else recurring_timer.resume_job
    job = await change(timer_id)
    if job is None:
        raise ToolFailure(f"change_timer: this chat has no recurring timer {timer_id!r}")
    return _line(job)


def _line(job: recurring_timer.RecurringTimerJob) -> str:
    coming = "paused"
    if job.next_run_at is not None:
        coming = f"next at {timer.local_time_of(job.next_run_at.timestamp(), job.timezone)}"
    return f"{recurring_timer.get_job_summary(job)}, {coming}: {job.event_desc}"
