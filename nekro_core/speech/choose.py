"""Builds the voice engine that the settings name."""

from collections.abc import Sequence

from nekro_core.speech.edge import EdgeSpeaker
from nekro_core.speech.espeak import EspeakSpeaker
from nekro_core.speech.http import HttpSpeaker
from nekro_core.speech.http_transcriber import HttpTranscriber
from nekro_core.speech.piper import PiperSpeaker
from nekro_core.speech.settings import SpeechSettings, TranscriberSettings
from nekro_core.speech.speaker import Speaker, Speech, Transcriber, VoiceInfo, VoiceUnknown


class FallbackSpeaker:
    """A `Speaker` that tries several other speakers in order.

    A speaker that lacks the wanted voice, or a voice for the text's language, raises
    `VoiceUnknown`. Only then is the next speaker tried. Any other error is raised, so that people
    notice a broken engine.
    """

    def __init__(self, speakers: Sequence[Speaker]) -> None:
        if not speakers:
            raise ValueError("FallbackSpeaker needs at least one speaker")
        self._speakers = tuple(speakers)
        self.name = "+".join(speaker.name for speaker in speakers)

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """List the voices of all speakers, in the order of the speakers."""
        return tuple([info for speaker in self._speakers for info in await speaker.voices()])

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        """Speak a text; see `Speaker.speak`."""
        for speaker in self._speakers[:-1]:
            try:
                return await speaker.speak(text, voice=voice, speed=speed)
            except VoiceUnknown:
                continue
        return await self._speakers[-1].speak(text, voice=voice, speed=speed)

    async def aclose(self) -> None:
        """Close all speakers."""
        for speaker in self._speakers:
            await speaker.aclose()


def open_transcriber(settings: TranscriberSettings) -> Transcriber | None:
    """Return the transcriber that ``settings`` describe; None if they have no address."""
    return HttpTranscriber(settings) if settings.base_url else None


def open_speaker(settings: SpeechSettings) -> Speaker:
    """Return the speaker that ``settings`` describe. Its engine starts only when it is first
    used."""
    voice = settings.voice or None
    match settings.engine:
        case "espeak":
            return EspeakSpeaker(voice=voice)
        case "piper":
            piper = PiperSpeaker(folder=settings.piper_voices, voice=voice)
            return FallbackSpeaker((piper, EspeakSpeaker()))
        case "edge":
            return EdgeSpeaker(voice=voice, timeout_s=settings.timeout_s)
        case "http":
            return HttpSpeaker(settings)
