"""The agent's settings, under ``NEKRO_AGENT__``."""

from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nekro_core.chat import ChatKey
from nekro_core.policy.settings import Mode, TurnSettings


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
