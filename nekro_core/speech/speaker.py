"""Defines the interfaces of voice engines: a speaker turns text into sound, and a transcriber turns
sound into text.

Errors::

    NekroError
    └── SpeechError
        ├── VoiceUnknown         there is no such voice; the text lists some voices
        ├── TextUnspeakable      nothing in the text can be spoken, or it is too long
        ├── SoundUnusable        the sound is damaged, too long or of an unknown type
        └── EngineUnavailable    a library, a voice file or the network is missing
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nekro_core.system.errors import NekroError
from nekro_core.system.workers.worker import WorkerLost, WorkerProcess


class SpeechError(NekroError):
    """Base class of the errors that an engine raises."""


class VoiceUnknown(SpeechError):
    """The requested voice does not exist."""


class TextUnspeakable(SpeechError):
    """Nothing in the text can be spoken, or it is too long."""


class SoundUnusable(SpeechError):
    """This sound cannot be transcribed."""


class EngineUnavailable(SpeechError):
    """The engine cannot work at present. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """A spoken text.

    Attributes:
        wav: A whole WAV file, 16-bit PCM, mono.
        seconds: The length of the sound, in seconds.
        voice: The name of the voice that speaks.
    """

    wav: bytes
    seconds: float
    voice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceInfo:
    """A voice that an engine has.

    Attributes:
        name: The name to pass to `Speaker.speak`.
        language: A BCP 47 tag, for example ``zh-CN``.
    """

    name: str
    language: str


class Speaker(Protocol):
    """An engine that speaks. It does not block the event loop."""

    name: str

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """List the voices that the engine has.

        Returns:
            The voices, best first.
        """

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        """Speak a text. If ``voice`` is None, a voice is chosen by the text's language.

        Args:
            text: The text to speak, at most 2,000 characters.
            voice: The name of a voice. With None, a voice is chosen by the text's language.
            speed: 0.5 to 2.0; 1.0 is natural.

        Returns:
            The sound.

        Raises:
            VoiceUnknown: There is no such voice.
            TextUnspeakable: Nothing in the text can be spoken, or it is too long.
            EngineUnavailable: A library, a voice file or the network is missing.
        """

    async def aclose(self) -> None:
        """Free the engine's resources."""


class SpeechWorker(WorkerProcess):
    """A worker process of a voice engine."""

    async def ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Do the same as `WorkerProcess.ask`, but raise `EngineUnavailable` instead of
        `WorkerLost`."""
        try:
            return await super().ask(request)
        except WorkerLost as lost:
            raise EngineUnavailable(str(lost)) from lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The text of a voice message. ``text`` is empty if nobody speaks in the message. ``language``
    is the engine's name for the language; it is empty if the engine does not name one."""

    text: str
    language: str = ""


class Transcriber(Protocol):
    """An engine that transcribes sound. It does not block the event loop."""

    name: str

    async def transcribe(self, wav: bytes) -> Transcript:
        """Transcribe a WAV file of 16-bit PCM with one channel, at most 24 MiB.

        Raises `SoundUnusable` if this sound cannot be transcribed, and `EngineUnavailable` if the
        engine does not work at all.
        """

    async def aclose(self) -> None:
        """Free the engine's resources."""
