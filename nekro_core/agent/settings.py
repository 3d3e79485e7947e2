"""The agent's settings, under ``NEKRO_AGENT__`` and ``NEKRO_TRIGGER__``."""

from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator

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


class PromptSettings(BaseModel):
    """Bounds of what the model is shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    history: int = Field(default=40, ge=1, le=500)
    """Messages of the chat before the one that is answered."""
    message_chars: int = Field(default=3000, ge=200)
    """A longer message loses its middle."""
    observation_chars: int = Field(default=12_000, ge=500)
    """Of a run's output, a traceback or a tool's observation; longer ones lose their middle."""
    found_tools: int = Field(default=16, ge=1, le=100)
    """Tools of a chat that were searched for and stay at hand; over it the oldest go."""
    search_by_meaning: bool = True
    """Whether tool_search also compares meanings: a process of 160 MB, gone two minutes later."""
    images: int = Field(default=4, ge=0, le=32)
    """Newest pictures given to a model that sees."""
    image_pixels: int = Field(default=1024, ge=64, le=4096)
    """Longer side; larger pictures cost more tokens and show a model nothing more."""


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


class AgentSettings(BaseModel):
    """How the agent works."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = "code"
    """How the model acts: ``code``, it writes Python that runs in a box; ``tools``, it calls the
    functions natively, one JSON object of arguments each. The second is for models that can."""
    modes: dict[str, Mode] = Field(default_factory=dict)
    """Another mode for single chats, by chat key."""
    stream_code: bool = True
    """Run statements while the model still writes; else only whole replies."""
    names: tuple[str, ...] = Field(default=("Nekro",), min_length=1)
    """What people call the bot; a message with one of them is answered. The first is its own."""
    persona: str = ""
    """Who the bot is, in the operator's words."""
    language: Literal["", "en", "zh", "ja"] = ""
    """Of the bot's own notices; empty follows the people of the chat."""
    timezone: str = ""
    """IANA name for times in prompts, for example ``Asia/Tokyo``; empty is the machine's."""
    concurrent_turns: int = Field(default=8, ge=1, le=256)
    """Turns of all chats at one time."""
    longest_queue_s: float = Field(default=300.0, gt=0)
    """Where all of them are taken, a turn waits so long; then the chat is told that there is too
    much to do, and its question is over."""
    warm_boxes: int = Field(default=64, ge=1, le=1024)
    """Boxes kept between turns, for chats whose code ran; over it the one unused longest is ended.
    Its files are saved, but its chat's next code waits for a new box. Their memory together has a
    bound besides (``NEKRO_SANDBOX__IDLE_MEMORY_MB``)."""
    box_idle_s: float = Field(default=600.0, gt=0)
    """A box unused for this long is saved and ended."""
    session_idle_s: float = Field(default=60.0, gt=0)
    """A chat silent for this long is forgotten until it speaks again."""
    prompt: PromptSettings = PromptSettings()
    turn: TurnSettings = TurnSettings()

    def mode_of(self, chat_key: ChatKey) -> Mode:
        """How the model acts in this chat."""
        return self.modes.get(str(chat_key), self.mode)

    @field_validator("modes")
    @classmethod
    def _check_modes(cls, value: dict[str, Mode]) -> dict[str, Mode]:
        return {str(ChatKey.parse(key)): mode for key, mode in value.items()}

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key if value else value
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such time zone: expected a name such as Asia/Tokyo") from None
