"""Timers that come again and again, as plain functions: the form that existing plugins know.

A schedule is a cron expression of five fields (or ``@daily`` and its like), a zone of the IANA's
(empty: the operator's, or the machine's) and a workday mode: ``none`` every day, ``mon_fri``,
``weekend``, ``cn_workday`` and ``cn_restday`` with China's public holidays. Times that pass while
the bot is away are told of once, together, when it is back. What is wrong is told as `ValueError`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from nekro_core.plugins.authoring.current import allowed_chat
from nekro_core.plugins.timers.functions import current_timers
from nekro_core.store import TimerRow
from nekro_core.timers import Schedule, TimerRefused, parsed_cron, parsed_zone

__all__ = [
    "RecurringTimerJob",
    "create_cron_job",
    "delete_job",
    "get_job",
    "get_job_id",
    "get_job_summary",
    "list_jobs",
    "pause_job",
    "resume_job",
    "run_now",
    "update_job",
    "validate_cron_expr",
    "validate_timezone",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringTimerJob:
    """A recurring timer as it is now. ``status`` is ``active`` or ``paused``; times are in UTC."""

    job_id: str
    chat_key: str
    cron_expr: str
    event_desc: str
    timezone: str
    workday_mode: str
    title: str
    status: str
    next_run_at: datetime | None
    last_run_at: datetime | None
    create_time: datetime

    @property
    def id(self) -> str:
        """The same as ``job_id``."""
        return self.job_id


async def create_cron_job(
    chat_key: str,
    cron_expr: str,
    event_desc: str,
    timezone: str = "",
    workday_mode: str = "none",
    title: str | None = None,
) -> RecurringTimerJob:
    """Wake the chat's agent whenever the schedule says so, with what it shall do then."""
    schedule = Schedule.parse(cron_expr, timezone or current_timers().timezone, workday_mode)
    chat = allowed_chat(chat_key)
    return _job_of(await current_timers().create(chat, schedule, event_desc, title=title or ""))


async def update_job(
    job_id: str,
    *,
    cron_expr: str | None = None,
    event_desc: str | None = None,
    timezone: str | None = None,
    workday_mode: str | None = None,
    title: str | None = None,
) -> RecurringTimerJob | None:
    """Change what is given; None where there is no such job."""
    row = _row(job_id)
    if row is None:
        return None
    schedule = Schedule.parse(
        row.cron if cron_expr is None else cron_expr,
        row.timezone if timezone is None else timezone or current_timers().timezone,
        row.workdays if workday_mode is None else workday_mode,
    )
    return _job_of(
        await current_timers().update(job_id, schedule=schedule, text=event_desc, title=title)
    )


async def get_job(job_id: str) -> RecurringTimerJob | None:
    """One job, or nothing."""
    row = _row(job_id)
    return _job_of(row) if row else None


async def list_jobs(
    chat_key: str | None = None, status: str | None = None, limit: int | None = None
) -> list[RecurringTimerJob]:
    """The jobs of a chat, or of all chats, in the order in which they were made."""
    chat = allowed_chat(chat_key) if chat_key else None
    jobs = [_job_of(row) for row in current_timers().recurring(chat)]
    return [job for job in jobs if not status or job.status == status][:limit]


async def delete_job(job_id: str) -> bool:
    """Forget a job; False where there was none."""
    return _row(job_id) is not None and await current_timers().delete(job_id)


async def pause_job(job_id: str) -> RecurringTimerJob | None:
    """Let a job rest until it is resumed; None where there is none."""
    return _job_of(await current_timers().pause(job_id)) if _row(job_id) else None


async def resume_job(job_id: str) -> RecurringTimerJob | None:
    """Let a job go on, from now; None where there is none."""
    return _job_of(await current_timers().resume(job_id)) if _row(job_id) else None


async def run_now(job_id: str) -> RecurringTimerJob | None:
    """Wake the agent at once, besides the job's times; None where there is none."""
    return _job_of(await current_timers().run_now(job_id)) if _row(job_id) else None


def get_job_id(job: RecurringTimerJob | str) -> str:
    """What a job is named by."""
    return job if isinstance(job, str) else job.job_id


def get_job_summary(job: RecurringTimerJob) -> str:
    """A job in a line."""
    days = "" if job.workday_mode == "none" else f", {job.workday_mode}"
    zone = f" {job.timezone}" if job.timezone else ""
    return (
        f"[{job.job_id}] {job.title or job.event_desc} ({job.cron_expr}{zone}{days}, {job.status})"
    )


def validate_cron_expr(cron_expr: str) -> str:
    """The expression, with a name such as ``@daily`` written out. Raises `ValueError`."""
    return parsed_cron(cron_expr)


def validate_timezone(timezone: str) -> str:
    """The zone's name. Raises `ValueError`, for an empty one too."""
    if not timezone.strip():
        raise TimerRefused("no time zone: expected a name such as Asia/Shanghai")
    return parsed_zone(timezone)


def _row(job_id: str) -> TimerRow | None:
    """The row of a job in a chat where the caller may do something."""
    row = current_timers().get(job_id)
    if row is not None:
        allowed_chat(row.chat_key)
    return row


def _job_of(row: TimerRow) -> RecurringTimerJob:
    return RecurringTimerJob(
        job_id=row.timer_id,
        chat_key=str(row.chat_key),
        cron_expr=row.cron,
        event_desc=row.text,
        timezone=row.timezone,
        workday_mode=row.workdays,
        title=row.title,
        status=row.state,
        next_run_at=_time(row.due),
        last_run_at=_time(row.told_due),
        create_time=datetime.fromtimestamp(row.created, UTC),
    )


def _time(moment: float) -> datetime | None:
    return datetime.fromtimestamp(moment, UTC) if moment else None
