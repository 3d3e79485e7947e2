"""Speaks with the voice engine edge-tts. It is an online service with natural voices in many
languages.

The service sends only MP3, which is converted to WAV. The conversion needs FFmpeg's library, which
the extra ``edge`` installs.
"""

import importlib
from importlib.util import find_spec
from typing import Any

import anyio

from nekro_core.media.converter import MediaConverter
from nekro_core.media.errors import MediaError
from nekro_core.speech.speaker import (
    EngineUnavailable,
    Speech,
    TextUnspeakable,
    VoiceInfo,
    VoiceUnknown,
)
from nekro_core.speech.text import clean_text, language_of

_VOICES = {
    "en": "en-US-AriaNeural",
    "zh": "zh-CN-XiaoxiaoNeural",
    "ja": "ja-JP-NanamiNeural",
    "ko": "ko-KR-SunHiNeural",
    "ru": "ru-RU-SvetlanaNeural",
    "de": "de-DE-KatjaNeural",
    "fr": "fr-FR-DeniseNeural",
    "es": "es-ES-ElviraNeural",
}


class EdgeSpeaker:
    """A `Speaker` that uses edge-tts. Without network, `voices` and `speak` raise
    `EngineUnavailable`."""

    name = "edge"

    def __init__(self, *, voice: str | None = None, timeout_s: float = 60.0) -> None:
        self._default = voice
        self._timeout_s = timeout_s
        self._converter = MediaConverter()
        self._known: tuple[VoiceInfo, ...] = ()

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """Return the voices of the service. The voices that `speak` can choose by the text's
        language come first."""
        if not self._known:
            try:
                with anyio.fail_after(self._timeout_s):
                    listed = await _library().list_voices()
            except _network_errors() as error:
                raise _unreachable(error) from error
            chosen = tuple(_VOICES.values())
            listed.sort(key=lambda voice: (voice["ShortName"] not in chosen, voice["ShortName"]))
            self._known = tuple(
                VoiceInfo(name=voice["ShortName"], language=voice["Locale"]) for voice in listed
            )
        return self._known

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        """Speak a text; see `Speaker.speak`."""
        text = clean_text(text)
        library = _library()
        known = {info.name for info in await self.voices()}
        chosen = voice or self._default or _VOICES.get(language_of(text), _VOICES["en"])
        if chosen not in known:
            some = ", ".join(_VOICES.values())
            raise VoiceUnknown(f"no voice {chosen[:80]!r}; for example {some}")
        percent = round((min(2.0, max(0.5, speed)) - 1.0) * 100)
        try:
            with anyio.fail_after(self._timeout_s):
                encoded = bytearray()
                async for piece in library.Communicate(
                    text, chosen, rate=f"{percent:+d}%"
                ).stream():
                    if piece["type"] == "audio":
                        encoded += piece["data"]
        except (*_network_errors(), library.exceptions.EdgeTTSException) as error:
            raise _unreachable(error) from error
        if not encoded:
            raise TextUnspeakable(f"the voice {chosen!r} has no sound for this text")
        try:
            sound = await self._converter.sound(bytes(encoded), "audio/mpeg")
        except MediaError as error:
            raise EngineUnavailable(f"what edge-tts sent cannot be decoded: {error}") from error
        return Speech(wav=sound.data, seconds=sound.seconds, voice=chosen)

    async def aclose(self) -> None:
        """Do nothing, because this speaker keeps no connection or process."""


def _library() -> Any:
    if find_spec("edge_tts") is None:
        raise EngineUnavailable("edge-tts is not installed: pip install 'nekro-core[edge]'")
    return importlib.import_module("edge_tts")


def _network_errors() -> tuple[type[Exception], ...]:
    return (OSError, TimeoutError, importlib.import_module("aiohttp").ClientError)


def _unreachable(error: BaseException) -> EngineUnavailable:
    reason = str(error) or type(error).__name__
    return EngineUnavailable(f"the edge voice service cannot be reached: {reason}")
