"""How the operator chooses a voice (``NEKRO_SPEECH__*``)."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class TranscriberSettings(BaseModel):
    """Who writes down what voices say: an OpenAI-style ``/audio/transcriptions`` endpoint. Without
    an address nobody does."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    base_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """Address of the API, most often ending in ``/v1``."""
    api_key: SecretStr = SecretStr("")
    model: str = "whisper-1"
    language: str = ""
    """ISO 639-1 code of what people here speak; empty lets the engine hear it."""
    timeout_s: float = Field(default=60.0, gt=0)
    wait_s: float = Field(default=10.0, ge=0)
    """How long a turn waits for what is said in the voices that it is to answer."""
    longest_s: float = Field(default=300.0, gt=0, le=480)
    """A longer voice is not written down; at 24 kHz, 480 s are what the endpoints take."""


class SpeechSettings(BaseModel):
    """Which engine speaks, and with which voice where nobody asks for one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    engine: Literal["espeak", "piper", "edge", "http"] = "espeak"
    """``espeak``: offline, any language. ``piper``: offline, natural, only the languages of its
    voices, espeak for the others. ``edge``: online, needs edge-tts and av. ``http``: an
    OpenAI-style ``/audio/speech`` endpoint."""
    voice: str = ""
    """Name of a voice of the engine; empty lets the text's language choose."""
    piper_voices: Path | None = None
    """A folder with more piper voices (``NAME.onnx`` beside ``NAME.onnx.json``)."""
    base_url: str = ""
    """For ``http``: address of the API, most often ending in ``/v1``."""
    api_key: SecretStr = SecretStr("")
    model: str = "tts-1"
    timeout_s: float = 60.0
    transcriber: TranscriberSettings = TranscriberSettings()

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if self.engine == "http" and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"engine is http but base_url is {self.base_url!r}: "
                "expected an address such as https://api.example.com/v1"
            )
        return self
