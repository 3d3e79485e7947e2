"""The contract of an ear: sound in, text out. Errors are those of `nekro_core.speech.speaker`."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What was heard; empty where nobody speaks. ``language`` is the engine's own word for it,
    empty where it does not say."""

    text: str
    language: str = ""


class Transcriber(Protocol):
    """An engine that writes down what it hears. Work is done off the event loop."""

    name: str

    async def transcribe(self, wav: bytes) -> Transcript:
        """Write down a WAV file of 16-bit PCM with one channel, at most 24 MiB.

        Raises `SoundUnusable` for this sound, `EngineUnavailable` for any.
        """

    async def aclose(self) -> None:
        """Free what it holds."""
