"""The agent's settings, under ``NEKRO_AGENT__``."""

from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from nekro_core.chat import ChatKey
from nekro_core.policy.settings import Mode, TurnSettings
from nekro_core.system.live_settings import AFTER_RESTART, LiveSettings


class PromptSettings(LiveSettings):
    """Limits of a prompt's content."""

    history_tokens: int = Field(default=8000, ge=500, le=200_000)
    """Size of the history in a prompt, in estimated tokens; at most a quarter of the model's
    context. When it is full, its older half is left out at once."""
    history: int = Field(default=400, ge=1, le=1000)
    """Maximum number of messages of the chat's history in a prompt."""
    message_chars: int = Field(default=3000, ge=200)
    """Maximum number of characters of a message. The middle of a longer message is left out."""
    observation_chars: int = Field(default=12_000, ge=500)
    """Maximum number of characters of a run's output, a traceback or a tool's observation. The
    middle of a longer text is left out."""
    found_tools: int = Field(default=16, ge=1, le=100, json_schema_extra=AFTER_RESTART)
    """Maximum number of found tools that a chat's prompts show. Above it, the tool that was found
    longest ago is dropped."""
    search_by_meaning: bool = Field(default=True, json_schema_extra=AFTER_RESTART)
    """Whether tool_search also compares meanings. This needs a process of 160 MB, which ends after
    two idle minutes."""
    images: int = Field(default=4, ge=0, le=32)
    """Maximum number of pictures in a prompt, for a model that accepts pictures. The newest
    pictures are shown."""
    image_pixels: int = Field(default=1024, ge=64, le=4096, json_schema_extra=AFTER_RESTART)
    """Maximum length in pixels of the longer side of such a picture. Larger pictures cost more
    tokens and do not help a model."""


class AgentSettings(LiveSettings):
    """Settings of the agent."""

    mode: Mode = "code"
    """How the model acts. With ``code`` the model writes Python that runs in a box. With ``tools``
    the model calls functions natively, with a JSON object of arguments for each call; not all
    models support this."""
    modes: dict[str, Mode] = Field(default_factory=dict)
    """The mode of single chats, by chat key; it replaces ``mode``."""
    stream_code: bool = True
    """Whether statements run while the model still writes. Otherwise the code runs when the reply
    is complete."""
    stream_words: bool = True
    """Whether plain words are sent while the model still writes, paragraph by paragraph. On a
    platform that can edit messages, the bot sends one message and adds to it. If this setting is
    false, words are sent when the reply is complete."""
    names: tuple[str, ...] = Field(default=("Nekro",), min_length=1)
    """Names that people call the bot. A message that contains one of them is answered. The first is
    the bot's main name."""
    persona: str = ""
    """The bot's persona, written by the operator."""
    language: Literal["", "en", "zh", "ja"] = ""
    """Language of the bot's notices. If empty, they are in the language of the people in the
    chat."""
    timezone: str = ""
    """Time zone of times in prompts, as an IANA name, for example ``Asia/Tokyo``. If empty, the
    machine's time zone is used."""
    concurrent_turns: int = Field(default=8, ge=1, le=256)
    """Maximum number of turns of all chats that run at the same time."""
    longest_queue_s: float = Field(default=300.0, gt=0)
    """Maximum wait of a turn while all slots are in use. After it the chat gets a notice that the
    bot is too busy, and the question is dropped."""
    warm_boxes: int = Field(default=64, ge=1, le=1024, json_schema_extra=AFTER_RESTART)
    """Maximum number of boxes that stay running between turns, for chats whose code ran. Above it,
    the box that was unused longest is ended. Its files are saved; the next code of that chat waits
    for a new box. ``NEKRO_SANDBOX__IDLE_MEMORY_MB`` also limits these boxes' total memory."""
    box_idle_s: float = Field(default=600.0, gt=0, json_schema_extra=AFTER_RESTART)
    """A box that is unused for this long is saved and ended."""
    session_idle_s: float = Field(default=60.0, gt=0)
    """The session of a chat that is silent for this long is removed from memory. The next message
    starts a new session."""
    prompt: PromptSettings = Field(default_factory=PromptSettings)
    turn: TurnSettings = Field(default_factory=TurnSettings)

    def mode_of(self, chat_key: ChatKey) -> Mode:
        """Return how the model acts in this chat."""
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
