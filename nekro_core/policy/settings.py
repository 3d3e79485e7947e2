"""Defines the settings from which policies are computed.

``NEKRO_TRIGGER__`` sets when the bot answers, ``NEKRO_AGENT__TURN__`` how much a turn and a day may
use, and ``NEKRO_DELIVERY__`` how much may be sent.
"""

from typing import Literal, Protocol

from pydantic import Field

from nekro_core.chat import ChatKey
from nekro_core.policy.participation import ParticipationSettings
from nekro_core.system.live_settings import LiveSettings

Mode = Literal["code", "tools"]


class TriggerSettings(LiveSettings):
    """When the bot answers. Times are seconds."""

    debounce_s: float = Field(default=0.9, ge=0, le=60)
    """How long the bot waits after a person's last message for the next one."""
    longest_wait_s: float = Field(default=6.0, ge=0, le=600)
    """The bot answers after this time even if the person keeps writing."""
    history_age_s: float = Field(default=600.0, ge=0)
    """A message that the adapter fetched from the platform's history, after the bot was offline, is
    answered only if it is younger than this."""
    recover_age_s: float = Field(default=3600.0, ge=0)
    """A message that was stored but not answered before a restart is answered only if it is younger
    than this."""
    private: bool = True
    """Whether every message of a private chat is answered."""
    burst_turns: int = Field(default=60, ge=0)
    """Maximum number of turns that one sender can wake in one chat within ``burst_s``. This
    limit ends loops between two bots that answer each other. A person who waits for the bot's
    answers does not reach the limit: a turn takes more than a second, and messages sent meanwhile
    belong to the same turn. A sender that reaches the limit gets answers again after ``rest_s`` of
    silence. 0 means no limit."""
    burst_s: float = Field(default=120.0, gt=0)
    """The seconds in which ``burst_turns`` are counted."""
    hour_turns: int = Field(default=300, ge=0)
    """Maximum number of such turns within an hour, for slow loops. 0 means no limit."""
    rest_s: float = Field(default=60.0, gt=0)
    """Seconds of silence after which a sender that reached a limit gets answers again."""
    participation: ParticipationSettings = Field(default_factory=ParticipationSettings)


class TurnSettings(LiveSettings):
    """Limits of one turn."""

    max_steps: int = Field(default=10, ge=1, le=100)
    """Maximum number of model replies. A turn that reaches this number usually repeats the same
    replies."""
    max_seconds: float = Field(default=600.0, gt=0)
    """Maximum duration of a turn in seconds, including the time of its calls."""
    max_tokens: int = Field(default=200_000, ge=1000)
    """Maximum number of prompt and completion tokens of all steps of a turn together."""
    chat_turns_a_day: int = Field(default=0, ge=0)
    """Maximum number of turns of one chat in 24 hours. 0 means no limit, here and in the quotas
    below."""
    chat_tokens_a_day: int = Field(default=0, ge=0)
    """Maximum number of tokens that one chat may use in 24 hours."""
    chat_money_a_day: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Maximum cost of one chat in 24 hours, computed from the models' prices
    (``NEKRO_LLM__*_PRICE``)."""
    user_turns_a_day: int = Field(default=0, ge=0)
    """Maximum number of turns that one person may wake in 24 hours, in all chats of a platform."""
    user_tokens_a_day: int = Field(default=0, ge=0)
    """Maximum number of tokens that one person's turns may use in 24 hours."""
    user_money_a_day: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Maximum cost of one person's turns in 24 hours."""
    turns_a_day: int = Field(default=0, ge=0)
    """Maximum number of turns of all chats in 24 hours."""
    tokens_a_day: int = Field(default=0, ge=0)
    """Maximum number of tokens of all chats in 24 hours."""
    money_a_day: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Maximum cost of all chats in 24 hours."""
    max_repairs: int = Field(default=3, ge=0, le=20)
    """Maximum number of further replies in a row with which the model may repair failed code. If
    the last of them fails too, the turn ends."""
    new_line: Literal["restart", "queue"] = "restart"
    """What a new line of the asker does while the model writes and nothing of its reply has run or
    was sent. With ``restart`` the request is dropped, and the model is asked again with the line,
    at most five times in a turn. With ``queue`` the line is shown to the next step or gets the next
    turn, as the lines of other people always do."""
    parallel_calls: int = Field(default=8, ge=1, le=64)
    """Maximum number of calls of one reply that run at the same time, if the model calls functions
    natively."""
    result_chars: int = Field(default=32_000, ge=1000)
    """Maximum number of characters of one native call's result. Of a longer result the model gets
    the beginning and the end, and the whole result is written to a file in the box."""
    output_chars: int = Field(default=4000, ge=500)
    """Maximum number of characters of a run's output that the model is shown. Of longer output the
    model gets the beginning and the end, and the whole output is written to a file in the box."""
    reply_tokens: int = Field(default=8192, ge=64)
    """Maximum number of completion tokens of one reply, with the tokens that a model thinks with.
    At most a quarter of the model's context is used. If a model has used all of them for thinking,
    so that the reply is empty, the next request of the turn allows twice as many."""
    reply_chars: int = Field(default=200_000, ge=1000)
    """Maximum number of characters of one reply, for providers that ignore ``reply_tokens``."""
    prose_chars: int = Field(default=6000, ge=100)
    """Maximum number of characters of each part in which a reply without code is sent, if it needs
    more messages than a run may send and the platform has no files. A part that still needs too
    many is cut again. In all other cases a long reply is sent in several messages or as a file."""


class SendRateSettings(LiveSettings):
    """How much may be sent: by one run, and to one chat within a time window."""

    sends_per_run: int = Field(default=8, gt=0)
    """Maximum number of messages that one run may send. Code that sends more is usually a faulty
    loop."""

    sends_per_window: int = Field(default=30, gt=0)
    """Maximum number of messages to one chat in each window. Platforms throttle or ban accounts
    that write more."""

    window_s: float = Field(default=60.0, gt=0)
    """Length of the window in seconds."""


class PolicyDefaults(Protocol):
    """The settings of a chat without overrides. `AgentSettings` implements it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names that people call the bot."""

    @property
    def persona(self) -> str:
        """The bot's persona, written by the operator."""

    @property
    def turn(self) -> TurnSettings:
        """How much a turn and a day may use."""

    def mode_of(self, chat_key: ChatKey) -> Mode:
        """Return how the model acts in this chat."""
