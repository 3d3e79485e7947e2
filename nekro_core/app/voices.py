"""Builds the engines of the roles ``hear`` and ``speak``. Each role has several engines, which are
asked in order until one works: first its model groups, then the engine that ``NEKRO_SPEECH__*``
names."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from loguru import logger

from nekro_core.llm.breaker import CircuitBreaker
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import PassReason
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.speech.choose import open_speaker, open_transcriber
from nekro_core.speech.http import HttpSpeaker
from nekro_core.speech.http_transcriber import HttpTranscriber
from nekro_core.speech.settings import SpeechSettings, TranscriberSettings
from nekro_core.speech.speaker import (
    EngineUnavailable,
    Speaker,
    Speech,
    Transcriber,
    Transcript,
    VoiceInfo,
    VoiceUnknown,
)

Clock = Callable[[], float]
Engine = TypeVar("Engine")


class ChainTranscriber:
    """A `Transcriber` that asks several engines in order. If an engine does not work, the next one
    is asked; if the sound is unusable, no other engine is asked.

    Args:
        engines: The engines. At least one.
        settings: They say for how long a failed engine is asked only after all others.
        clock: A monotonic clock, in seconds.
    """

    name = "chain"

    def __init__(
        self,
        engines: Sequence[Transcriber],
        settings: RoleSettings,
        clock: Clock = time.monotonic,
    ) -> None:
        self._engines = [(each, CircuitBreaker(settings, clock)) for each in engines]

    async def transcribe(self, wav: bytes) -> Transcript:
        """See `Transcriber.transcribe`."""
        for engine, breaker in _order(self._engines):
            async with _asking(breaker):
                return await engine.transcribe(wav)
        raise EngineUnavailable("no engine of the role hear answers; the log says why of each")

    async def aclose(self) -> None:
        """Close all engines."""
        for engine, _ in self._engines:
            await engine.aclose()


class ChainSpeaker:
    """A `Speaker` that asks several engines in order. If an engine does not work or lacks the
    voice, the next one is asked. The arguments are those of `ChainTranscriber`."""

    name = "chain"

    def __init__(
        self, engines: Sequence[Speaker], settings: RoleSettings, clock: Clock = time.monotonic
    ) -> None:
        self._engines = [(each, CircuitBreaker(settings, clock)) for each in engines]

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """See `Speaker.voices`."""
        return tuple([info for engine, _ in self._engines for info in await engine.voices()])

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        """See `Speaker.speak`."""
        unknown: VoiceUnknown | None = None
        for engine, breaker in _order(self._engines):
            async with _asking(breaker):
                try:
                    return await engine.speak(text, voice=voice, speed=speed)
                except VoiceUnknown as error:
                    unknown = unknown or error
        if unknown is not None:
            raise unknown
        raise EngineUnavailable("no engine of the role speak answers; the log says why of each")

    async def aclose(self) -> None:
        """Close all engines."""
        for engine, _ in self._engines:
            await engine.aclose()


def transcriber_of(
    roles: RoleSettings,
    groups: Mapping[str, ModelGroupSettings],
    settings: TranscriberSettings,
) -> Transcriber | None:
    """Return the transcriber of received voices; None if no engine is configured."""
    named = [
        HttpTranscriber(settings.model_copy(update=_endpoint(groups[name])))
        for name in roles.hear
        if name in groups
    ]
    configured = open_transcriber(settings)
    if not named:
        return configured
    return ChainTranscriber([*named, *([configured] if configured else [])], roles)


def speaker_of(
    roles: RoleSettings, groups: Mapping[str, ModelGroupSettings], settings: SpeechSettings
) -> Speaker:
    """Return the speaker, which turns text into voice."""
    named = [
        HttpSpeaker(settings.model_copy(update=_endpoint(groups[name]) | {"engine": "http"}))
        for name in roles.speak
        if name in groups
    ]
    configured = open_speaker(settings)
    return ChainSpeaker([*named, configured], roles) if named else configured


def _endpoint(group: ModelGroupSettings) -> dict[str, object]:
    return {"base_url": group.base_url, "api_key": group.api_key, "model": group.model}


def _order(
    engines: Sequence[tuple[Engine, CircuitBreaker]],
) -> list[tuple[Engine, CircuitBreaker]]:
    """Return first the engines that may be asked, then those that cool down after a failure."""
    return sorted(engines, key=lambda each: not each[1].admits)


@asynccontextmanager
async def _asking(breaker: CircuitBreaker) -> AsyncIterator[None]:
    """Tell the engine's breaker whether the block succeeds. If the block raises
    `EngineUnavailable`, the error is logged and not raised again, so that the caller asks the next
    engine."""
    passage = breaker.enter(forced=True)
    assert passage is not None, "a forced request always passes"
    try:
        yield
        breaker.works(passage)
        breaker.finished()
    except EngineUnavailable as error:
        breaker.fails(passage, PassReason.UNREACHABLE, str(error))
        logger.warning("a voice engine did not answer: {}", error)
    finally:
        breaker.leave(passage)
