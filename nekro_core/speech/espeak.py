"""Speaks with the voice engine espeak-ng. The engine is small, works offline and knows most
languages, but it does not sound natural."""

import difflib
from collections.abc import Sequence

from nekro_core.speech import japanese
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

_WORDS_A_MINUTE = 165
"""The normal speed in words a minute. It is slower than espeak's default of 175, because people can
follow it more easily."""
_MOST_SECONDS = 600.0
"""The longest sound in seconds. A text of 2,000 digits, which is read as one number, would be far
longer."""

_FIRST = ("en-us", "cmn", "ja", "en-gb", "ko", "yue", "ru", "de", "fr", "es")
_CODES = {"en": "en-us", "zh": "cmn", "zh-cn": "cmn", "zh-tw": "cmn", "zh-hk": "yue", "pt": "pt-br"}
"""Maps a usual language tag, or a result of `language_of`, to espeak's code, if the two differ."""
_TAGS = {"en-us": "en-US", "cmn": "zh", "en-gb": "en-GB", "pt-br": "pt-BR"}


class EspeakSpeaker:
    """A `Speaker` that uses espeak-ng's C library in its own process, because the library has one
    state per process and is not thread-safe.

    The default ``voice`` speaks texts in its language. For other texts, a voice of their language
    is chosen. A voice is named by its language (``en-us``, ``cmn``, ``ja``; ``zh`` and ``zh-CN``
    are understood). A variant after a plus sign makes it sound like another person: ``en-us+f3``.
    Japanese is read with a dictionary (see `nekro_core.speech.japanese`). Without the dictionary,
    Japanese texts raise `EngineUnavailable`, since espeak cannot read kanji.
    """

    name = "espeak"

    def __init__(self, *, voice: str | None = None) -> None:
        self._default = voice
        self._worker = SpeechWorker("nekro_core.speech.espeak_worker")
        self._voices: tuple[VoiceInfo, ...] = ()
        self._identifiers: dict[str, str] = {}
        self._variants: frozenset[str] = frozenset()

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """Return the voices, one for each language."""
        if not self._voices:
            answer, _ = await self._worker.ask({"do": "voices"})
            _require_engine(answer)
            rank = {name: number for number, name in enumerate(_FIRST)}
            names = sorted(set(answer["voices"]), key=lambda n: (rank.get(n, len(rank)), n))
            self._identifiers = answer["voices"]
            self._voices = tuple(
                VoiceInfo(name=name, language=_TAGS.get(name, name)) for name in names
            )
            self._variants = frozenset(answer["variants"])
        return self._voices

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        """Speak a text; see `Speaker.speak`."""
        text = clean_text(text)
        chosen = await self._choose(voice, text)
        to_kana = chosen.startswith("ja")
        if to_kana and not japanese.dictionary_installed():
            raise EngineUnavailable(
                "Japanese needs its dictionary: pip install fugashi ipadic, then start again"
            )
        base, plus, variant = chosen.partition("+")
        answer, pcm = await self._worker.ask(
            {
                "do": "speak",
                "text": text,
                "voice": f"{self._identifiers[base]}{plus}{variant}",
                "words_a_minute": round(_WORDS_A_MINUTE * min(2.0, max(0.5, speed))),
                "most_seconds": _MOST_SECONDS,
                "to_kana": to_kana,
            }
        )
        _require_engine(answer)
        sound = PcmSound(pcm, answer["rate"])
        if sound.seconds > _MOST_SECONDS:
            raise TextUnspeakable(f"speaking this takes over {_MOST_SECONDS / 60:.0f} minutes")
        if not sound.peak_amplitude:
            raise TextUnspeakable(f"the voice {chosen!r} has no sound for this text")
        return Speech(wav=write_wav(sound), seconds=sound.seconds, voice=chosen)

    async def aclose(self) -> None:
        """End the process."""
        await self._worker.aclose()

    async def _choose(self, voice: str | None, text: str) -> str:
        languages = {info.name: info.language for info in await self.voices()}
        names = list(languages)
        if voice is not None:
            return self._resolve(voice, names)
        language = language_of(text)
        if self._default is not None:
            default = self._resolve(self._default, names)
            if languages[default.partition("+")[0]].partition("-")[0] == language:
                return default
        # If the language has no voice, the English voice reads the text. A strange sound is better
        # than silence.
        return _find(language, names) or _find("en", names) or names[0]

    def _resolve(self, voice: str, names: Sequence[str]) -> str:
        base, plus, variant = voice.strip().replace("_", "-").partition("+")
        found = _find(base.lower(), names)
        variants = {name.lower(): name for name in self._variants}
        if found is None or (plus and variant.lower() not in variants):
            near = difflib.get_close_matches(base.lower(), names, 3)
            some = ", ".join(dict.fromkeys((*near, *_FIRST[:6])))
            raise VoiceUnknown(
                f"no voice {voice[:80]!r}. Name a language, for example {some}, "
                "or leave it out: then the text's language decides"
            )
        return f"{found}+{variants[variant.lower()]}" if plus else found


def _find(tag: str, names: Sequence[str]) -> str | None:
    """Find the voice for a language tag. The best one is the voice of the whole tag. The second
    best is the voice of its language without a region. The third best is a voice of its language
    with any region. Return None if there is none of them."""
    plain = tag.partition("-")[0]
    for wanted in (_CODES.get(tag, tag), _CODES.get(plain, plain), f"{plain}-{plain}"):
        if wanted in names:
            return wanted
    return next((name for name in names if name.startswith(f"{plain}-")), None)


def _require_engine(answer: dict[str, object]) -> None:
    if missing := answer.get("missing"):
        raise EngineUnavailable(f"{missing}. Install it again: pip install espeakng-loader")
