"""The settings that a policy is made of.

When the bot answers is under ``NEKRO_TRIGGER__``, what a turn and a day may use under
``NEKRO_AGENT__TURN__``, what may be sent under ``NEKRO_DELIVERY__``.
"""

from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.chat import ChatKey

Mode = Literal["code", "tools"]


class TriggerSettings(BaseModel):
    """When the bot answers. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    debounce_s: float = Field(default=0.9, ge=0, le=60)
    """How long to wait for the rest of what a person is typing."""
    longest_wait_s: float = Field(default=6.0, ge=0, le=600)
    """However much somebody goes on typing, an answer begins after this."""
    history_age_s: float = Field(default=600.0, ge=0)
    """What was said while the bot was away is answered only if it is younger."""
    recover_age_s: float = Field(default=3600.0, ge=0)
    """What was stored but not answered before a restart gets its turn only if it is younger."""
    private: bool = True
    """Answer every message of a private chat."""
    burst_turns: int = Field(default=60, ge=0)
    """Turns that one sender can wake in one chat within ``burst_s``: two bots that answer each
    other come to an end. No person reaches it who lets the bot finish (a turn takes over a second,
    and what is said meanwhile belongs to it). Who does is answered again after ``rest_s`` of
    silence; 0 is no bound."""
    burst_s: float = Field(default=120.0, gt=0)
    hour_turns: int = Field(default=300, ge=0)
    """The same within an hour, for bots that take their time."""
    rest_s: float = Field(default=60.0, gt=0)


class TurnSettings(BaseModel):
    """Limits of one turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_steps: int = Field(default=10, ge=1, le=100)
    """Model replies. A turn that needs more is going in circles."""
    max_seconds: float = Field(default=600.0, gt=0)
    """From its beginning, everything included."""
    max_tokens: int = Field(default=200_000, ge=1000)
    """Prompt and completion of all its steps together."""
    chat_turns_a_day: int = Field(default=0, ge=0)
    """Turns that one chat may have in 24 hours; 0 sets no limit, here and below."""
    chat_tokens_a_day: int = Field(default=0, ge=0)
    """Tokens that one chat may use in 24 hours."""
    chat_money_a_day: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """What one chat may cost in 24 hours, by the prices of the models (``NEKRO_LLM__*_PRICE``)."""
    user_turns_a_day: int = Field(default=0, ge=0)
    """Turns that one person may wake in 24 hours, in all chats of a platform."""
    user_tokens_a_day: int = Field(default=0, ge=0)
    """Tokens that one person's questions may use in 24 hours."""
    user_money_a_day: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """What one person's questions may cost in 24 hours."""
    turns_a_day: int = Field(default=0, ge=0)
    """Turns of all chats in 24 hours."""
    tokens_a_day: int = Field(default=0, ge=0)
    """Tokens of all chats in 24 hours."""
    money_a_day: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """What all chats may cost in 24 hours."""
    max_repairs: int = Field(default=3, ge=0, le=20)
    """Replies in a row whose code failed, after the first."""
    parallel_calls: int = Field(default=8, ge=1, le=64)
    """Calls of one reply that are carried out at one time, where the model calls natively."""
    result_chars: int = Field(default=32_000, ge=1000)
    """Of one call's result there; of a longer one the model gets beginning and end, and the box a
    file with all of it."""
    reply_tokens: int = Field(default=4096, ge=64)
    """Completion tokens that one reply may have."""
    reply_chars: int = Field(default=200_000, ge=1000)
    """A provider that ignores the bound above is cut off here."""
    prose_chars: int = Field(default=6000, ge=100)
    """Of a reply in words that would be more messages than a run may send, on a platform without
    files: its middle is left out. Elsewhere long words go in parts or as a file."""


class SendRateSettings(BaseModel):
    """How much may be sent: by one run, and to one chat in a while."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sends_per_run: int = Field(default=8, gt=0)
    """Messages that one run may send: more is a loop in the model's code, not an answer."""

    sends_per_window: int = Field(default=30, gt=0)
    """Messages to one chat per window; platforms throttle or ban accounts that write more."""

    window_s: float = Field(default=60.0, gt=0)
    """Length of that window."""


class PolicyDefaults(Protocol):
    """The settings of a chat without overrides (`AgentSettings` has them)."""

    @property
    def names(self) -> tuple[str, ...]:
        """What people call the bot."""

    @property
    def persona(self) -> str:
        """Who the bot is, in the operator's words."""

    @property
    def turn(self) -> TurnSettings:
        """What a turn and a day may use."""

    def mode_of(self, chat_key: ChatKey) -> Mode:
        """How the model acts in this chat."""
