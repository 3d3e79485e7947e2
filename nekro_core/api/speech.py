"""Re-exports the types of ``ctx.services.speaker``, which turns text into voice."""

from nekro_core.speech.speaker import (
    EngineUnavailable,
    Speaker,
    Speech,
    SpeechError,
    TextUnspeakable,
    VoiceInfo,
    VoiceUnknown,
)

__all__ = [
    "EngineUnavailable",
    "Speaker",
    "Speech",
    "SpeechError",
    "TextUnspeakable",
    "VoiceInfo",
    "VoiceUnknown",
]
