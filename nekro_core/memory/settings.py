"""The settings of the memory, under ``NEKRO_MEMORY__``."""

from pydantic import Field

from nekro_core.system.live_settings import LiveSettings


class MemorySettings(LiveSettings):
    """What the bot remembers, and how much of it prompts show."""

    notes: bool = True
    """Whether the bot keeps notes. If false, existing notes stay stored, but prompts do not show
    them."""
    draw_notes: bool = True
    """Whether a model of the role ``quick`` draws notes out of conversations that have paused. It
    needs such a model."""
    summaries: bool = True
    """Whether a model of the role ``quick`` summarizes what is older than the messages that a
    prompt shows. Without such a model, a line says how many older messages there are."""
    knowledge: bool = True
    """Whether the bot looks things up in the documents of ``data/knowledge``."""
    notes_tokens: int = Field(default=400, ge=50, le=8000)
    """Maximum number of tokens of the notes in a prompt. The model finds other notes with
    ``find_notes``."""
    summary_tokens: int = Field(default=700, ge=100, le=8000)
    """Maximum number of tokens of the summary in a prompt."""
    notes_days: float = Field(default=0.0, ge=0)
    """Days after which a note that did not change is deleted. With 0, notes are never deleted for
    their age. Summaries are deleted with the age of their messages
    (``NEKRO_STORE__KEEP__MESSAGES_DAYS``)."""
    pause_s: float = Field(default=600.0, ge=10)
    """Seconds without a message after which a conversation has paused, and notes are drawn."""
    asks_a_day: int = Field(default=1000, ge=0)
    """Maximum number of requests to the model of role ``quick`` in 24 hours, for all chats. With 0
    there is no maximum."""
