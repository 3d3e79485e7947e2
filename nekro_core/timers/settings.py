"""The timers' settings, under ``NEKRO_TIMER__``."""

from pydantic import BaseModel, ConfigDict, Field


class TimerSettings(BaseModel):
    """Bounds of what is set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_chat: int = Field(default=100, ge=1, le=10_000)
    """Timers that one chat may have, paused ones too: the model sets them, and may run wild."""
    in_all: int = Field(default=20_000, ge=1)
    """Timers of all chats. They are kept in memory, at about 1 kB each."""
    text_chars: int = Field(default=4000, ge=100)
    """Of what the agent is told when a timer is due."""
    look_s: float = Field(default=1.0, gt=0, le=60)
    """How soon a clock that somebody has set is noticed, while there are timers."""
