"""The timers' settings, under ``NEKRO_TIMER__``."""

from pydantic import Field

from nekro_core.system.live_settings import AFTER_RESTART, LiveSettings


class TimerSettings(LiveSettings):
    """Limits of timers."""

    per_chat: int = Field(default=100, ge=1, le=10_000)
    """Maximum number of timers of one chat, including paused ones. There is a limit because the
    model sets timers, and might set too many."""
    in_all: int = Field(default=20_000, ge=1)
    """Maximum number of timers of all chats together. They are held in memory, at about 1 kB
    each."""
    text_chars: int = Field(default=4000, ge=100)
    """Maximum number of characters of a timer's text."""
    look_s: float = Field(default=1.0, gt=0, le=60, json_schema_extra=AFTER_RESTART)
    """Seconds within which a change of the system clock is noticed if there are timers."""
