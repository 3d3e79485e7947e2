"""Re-exports the functions for timers that wake a chat's agent once."""

from nekro_core.plugins.timers.functions import (
    TimerTask,
    clear_timer,
    clear_timers,
    get_timers,
    local_time_of,
    moment_of,
    now,
    set_temp_timer,
    set_timer,
)

__all__ = [
    "TimerTask",
    "clear_timer",
    "clear_timers",
    "get_timers",
    "local_time_of",
    "moment_of",
    "now",
    "set_temp_timer",
    "set_timer",
]
