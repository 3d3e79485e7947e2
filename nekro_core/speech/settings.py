"""How the operator chooses a voice (``NEKRO_SPEECH__*``)."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator


class SpeechSettings(BaseModel):
    """Which engine speaks, and with which voice where nobody asks for one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    engine: Literal["espeak", "piper", "edge", "http"] = "espeak"
    """``espeak``: offline, any language. ``piper``: offline, natural, only the languages of its
    voices, espeak for the others. ``edge``: online, needs edge-tts and ffmpeg. ``http``: an
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

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if self.engine == "http" and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"engine is http but base_url is {self.base_url!r}: "
                "expected an address such as https://api.example.com/v1"
            )
        return self
