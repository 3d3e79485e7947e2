"""Tests that every `Transcriber` must pass. The tests of an implementation subclass
`TranscriberConformance` and define the fixtures ``transcriber`` and ``sound``, a sound with words
or a tone."""

import anyio
import pytest

from nekro_core.speech.speaker import SoundUnusable, Transcriber
from nekro_core.speech.wav import PcmSound, read_wav, write_wav


class TranscriberConformance:
    async def test_a_sound_becomes_words(self, transcriber: Transcriber, sound: bytes) -> None:
        transcript = await transcriber.transcribe(sound)
        assert transcript.text
        assert transcript.text == transcript.text.strip()
        assert isinstance(transcript.language, str)

    async def test_silence_becomes_an_empty_transcript(
        self, transcriber: Transcriber, sound: bytes
    ) -> None:
        silence = write_wav(PcmSound(bytes(32_000), 16_000))
        assert (await transcriber.transcribe(silence)).text == ""

    async def test_several_sounds_are_transcribed_at_once(
        self, transcriber: Transcriber, sound: bytes
    ) -> None:
        texts: list[str] = []

        async def hear() -> None:
            texts.append((await transcriber.transcribe(sound)).text)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(hear)
        assert len(texts) == 3
        assert len(set(texts)) == 1

    @pytest.mark.parametrize(
        "broken",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"\x02#!SILK_V3", id="not WAV"),
            pytest.param(b"RIFF\x04\0\0\0WAVE", id="a WAV without sound"),
        ],
    )
    async def test_a_file_without_sound_is_an_error(
        self, transcriber: Transcriber, sound: bytes, broken: bytes
    ) -> None:
        with pytest.raises(SoundUnusable):
            await transcriber.transcribe(broken)
        # The transcriber still works after the error.
        assert (await transcriber.transcribe(sound)).text

    async def test_a_sound_that_is_too_large_is_an_error(
        self, transcriber: Transcriber, sound: bytes
    ) -> None:
        long = write_wav(PcmSound(bytes(26 * 1024 * 1024), read_wav(sound).rate))
        with pytest.raises(SoundUnusable):
            await transcriber.transcribe(long)

    async def test_a_transcriber_may_be_closed_without_use_and_twice(
        self, transcriber: Transcriber
    ) -> None:
        await transcriber.aclose()
        await transcriber.aclose()
