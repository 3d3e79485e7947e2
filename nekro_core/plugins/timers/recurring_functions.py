"""Functions for recurring timers, under the names that existing plugins use.

A schedule is a cron expression of five fields (or a name such as ``@daily``), an IANA time zone
(if empty: the zone that the operator set, else the machine's) and a workday mode: ``none`` (every
day), ``mon_fri``, ``weekend``, ``cn_workday`` or ``cn_restday``. The last two follow China's public
holidays. If times pass while the bot is down, the agent is woken once for all of them at the next
start. Wrong values raise `ValueError`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from nekro_core.plugins.authoring.current import allowed_chat, current_call
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
    """The present state of a recurring timer.

    Attributes:
        job_id: The id of the timer.
        chat_key: The chat whose agent is woken.
        cron_expr: A cron expression of five fields.
        event_desc: The text that tells the agent what to do.
        timezone: The IANA time zone of the schedule; empty for the machine's.
        workday_mode: ``none``, ``mon_fri``, ``weekend``, ``cn_workday`` or ``cn_restday``.
        title: A name that people see; may be empty.
        status: ``active`` or ``paused``.
        next_run_at: The next due time, in UTC; None if there is none.
        last_run_at: The last due time for which the agent was woken, in UTC; None if it never was.
        create_time: When the timer was made, in UTC.
    """

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
    """Wake the chat's agent at the times of a schedule.

    Args:
        chat_key: The chat. A tool that the model called may name the chat of the call, and other
            chats if the operator allows the plugin to.
        cron_expr: Five fields of cron (``0 8 * * *``), or a name such as ``@daily``.
        event_desc: The text that tells the agent what to do then.
        timezone: An IANA time zone. If it is empty, the zone that the operator set, else the
            machine's.
        workday_mode: On which days the timer is due: ``none`` (all), ``mon_fri``, ``weekend``,
            ``cn_workday`` or ``cn_restday``.
        title: A name that people see.

    Returns:
        The job.

    Raises:
        ValueError: The schedule or the text is not accepted; the message says why.
        ToolFailure: The chat is not allowed, or the bot has no timers.
    """
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
    """Change the given fields of a job. A field with None does not change.

    Args:
        job_id: The job's id.
        cron_expr: As for `create_cron_job`.
        event_desc: As for `create_cron_job`.
        timezone: As for `create_cron_job`.
        workday_mode: As for `create_cron_job`.
        title: As for `create_cron_job`.

    Returns:
        The changed job; None if there is no such job.

    Raises:
        ValueError: As of `create_cron_job`.
        ToolFailure: The job's chat is not allowed, or the bot has no timers.
    """
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
    """Get a job by its id.

    Args:
        job_id: The job's id.

    Returns:
        The job; None if there is none.

    Raises:
        ToolFailure: The job's chat is not allowed, or the bot has no timers.
    """
    row = _row(job_id)
    return _job_of(row) if row else None


async def list_jobs(
    chat_key: str | None = None, status: str | None = None, limit: int | None = None
) -> list[RecurringTimerJob]:
    """List the jobs of a chat, or of all chats, in the order in which they were made.

    Args:
        chat_key: The chat. None or empty means all chats; in a tool that the model called it means
            the chat of the call.
        status: ``active`` or ``paused``; None for both.
        limit: The maximum number of jobs to return; None for all.

    Returns:
        The jobs.

    Raises:
        ToolFailure: The chat is not allowed, or the bot has no timers.
    """
    if not chat_key and (call := current_call()) is not None:
        chat_key = call.chat_key
    chat = allowed_chat(chat_key) if chat_key else None
    jobs = [_job_of(row) for row in current_timers().recurring(chat)]
    return [job for job in jobs if not status or job.status == status][:limit]


async def delete_job(job_id: str) -> bool:
    """Delete a job.

    Args:
        job_id: The job's id.

    Returns:
        False if there was no such job.

    Raises:
        ToolFailure: As of `get_job`.
    """
    return _row(job_id) is not None and await current_timers().delete(job_id)


async def pause_job(job_id: str) -> RecurringTimerJob | None:
    """Pause a job until it is resumed.

    Args:
        job_id: The job's id.

    Returns:
        The job; None if there is none.

    Raises:
        ToolFailure: As of `get_job`.
    """
    return _job_of(await current_timers().pause(job_id)) if _row(job_id) else None


async def resume_job(job_id: str) -> RecurringTimerJob | None:
    """Resume a paused job. Times that passed during the pause are skipped.

    Args:
        job_id: The job's id.

    Returns:
        The job; None if there is none.

    Raises:
        ToolFailure: As of `get_job`.
    """
    return _job_of(await current_timers().resume(job_id)) if _row(job_id) else None


async def run_now(job_id: str) -> RecurringTimerJob | None:
    """Wake the agent at once. The job's due times do not change.

    Args:
        job_id: The job's id.

    Returns:
        The job; None if there is none.

    Raises:
        ToolFailure: As of `get_job`.
    """
    return _job_of(await current_timers().run_now(job_id)) if _row(job_id) else None


def get_job_id(job: RecurringTimerJob | str) -> str:
    """Get the id of a job.

    Args:
        job: A job, or the id of a job.

    Returns:
        The id.
    """
    return job if isinstance(job, str) else job.job_id


def get_job_summary(job: RecurringTimerJob) -> str:
    """Describe a job in one line.

    Args:
        job: The job.

    Returns:
        The job's id, title (else text), schedule and status.
    """
    days = "" if job.workday_mode == "none" else f", {job.workday_mode}"
    zone = f" {job.timezone}" if job.timezone else ""
    return (
        f"[{job.job_id}] {job.title or job.event_desc} ({job.cron_expr}{zone}{days}, {job.status})"
    )


def validate_cron_expr(cron_expr: str) -> str:
    """Check a cron expression.

    Args:
        cron_expr: Five fields, or a name such as ``@daily``.

    Returns:
        The expression. A name is replaced by its five fields.

    Raises:
        ValueError: The text is not a cron expression.
    """
    return parsed_cron(cron_expr)


def validate_timezone(timezone: str) -> str:
    """Check the name of a time zone.

    Args:
        timezone: An IANA name, for example ``Asia/Shanghai``.

    Returns:
        The zone's name.

    Raises:
        ValueError: There is no such zone, or the text is empty.
    """
    if not timezone.strip():
        raise TimerRefused("no time zone: expected a name such as Asia/Shanghai")
    return parsed_zone(timezone)


def _row(job_id: str) -> TimerRow | None:
    """Get the row of a job; None if there is none. Raises `ToolFailure` if the caller may not act
    in the job's chat."""
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
