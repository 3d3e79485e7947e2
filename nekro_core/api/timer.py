"""Timers that wake a chat's agent once."""

from nekro_core.plugin.timers import (
    TimerTask,
    clear_timers,
    get_timers,
    set_temp_timer,
    set_timer,
)

__all__ = ["TimerTask", "clear_timers", "get_timers", "set_temp_timer", "set_timer"]
