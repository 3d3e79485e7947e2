"""Voices, as a plugin meets them through ``ctx.services.speaker``."""

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
