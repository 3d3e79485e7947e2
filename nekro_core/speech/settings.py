"""Settings of voices and of transcription (``NEKRO_SPEECH__*``)."""

from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from nekro_core.system.live_settings import LiveSettings


class TranscriberSettings(LiveSettings):
    """The engine that transcribes voices: an OpenAI-style ``/audio/transcriptions`` endpoint.
    Without an address voices are not transcribed."""

    model_config = ConfigDict(hide_input_in_errors=True)

    base_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """Address of the API, most often ending in ``/v1``."""
    api_key: SecretStr = SecretStr("")
    """The key of the API. It may be empty if the endpoint needs none."""
    model: str = "whisper-1"
    """The engine's name of the model."""
    language: str = ""
    """ISO 639-1 code of the language that people speak; empty lets the engine recognize it."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Time limit of a request, in seconds."""
    wait_s: float = Field(default=10.0, ge=0)
    """Seconds that a turn waits for the transcripts of the voices that it will answer."""
    longest_s: float = Field(default=300.0, gt=0, le=480)
    """The longest voice, in seconds, that is transcribed. The endpoints accept 480 s at 24 kHz."""


class SpeechSettings(LiveSettings):
    """The engine that speaks, and its default voice."""

    model_config = ConfigDict(hide_input_in_errors=True)

    engine: Literal["espeak", "piper", "edge", "http"] = "espeak"
    """``espeak``: offline, any language. ``piper``: offline, natural, for the languages of its
    voices; espeak speaks the others. ``edge``: online, needs edge-tts and av. ``http``: an
    OpenAI-style ``/audio/speech`` endpoint."""
    voice: str = ""
    """Name of a voice of the engine; empty: a voice is chosen by the text's language."""
    piper_voices: Path | None = None
    """A folder with more Piper voices (``NAME.onnx`` beside ``NAME.onnx.json``)."""
    base_url: str = ""
    """For ``http``: address of the API, most often ending in ``/v1``."""
    api_key: SecretStr = SecretStr("")
    """The key of the API. It may be empty if the endpoint needs none."""
    model: str = "tts-1"
    """The engine's name of the model."""
    timeout_s: float = 60.0
    """Time limit of a request, in seconds."""
    transcriber: TranscriberSettings = Field(default_factory=TranscriberSettings)

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if self.engine == "http" and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"engine is http but base_url is {self.base_url!r}: "
                "expected an address such as https://api.example.com/v1"
            )
        return self
