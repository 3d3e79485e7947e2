"""Re-exports the functions for timers that wake a chat's agent repeatedly."""

from nekro_core.plugins.timers.recurring_functions import (
    RecurringTimerJob,
    create_cron_job,
    delete_job,
    get_job,
    get_job_id,
    get_job_summary,
    list_jobs,
    pause_job,
    resume_job,
    run_now,
    update_job,
    validate_cron_expr,
    validate_timezone,
)

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
