"""Tests that every `Speaker` must pass. The tests of an implementation subclass
`SpeakerConformance` and define the fixture ``speaker``."""

import io
import wave

import pytest

from nekro_core.speech.speaker import Speaker, Speech, TextUnspeakable, VoiceUnknown
from nekro_core.speech.wav import read_wav

SENTENCE = "Good night, sleep well, and see you tomorrow."


def check_sound(speech: Speech) -> None:
    """Check a `Speech` with the standard library's WAV reader and with `read_wav`."""
    with wave.open(io.BytesIO(speech.wav)) as file:
        assert file.getnchannels() == 1
        assert file.getsampwidth() == 2
        assert file.getframerate() >= 8_000
        assert file.getnframes() / file.getframerate() == pytest.approx(speech.seconds, abs=0.01)
    sound = read_wav(speech.wav)
    assert sound.peak_amplitude > 1_000
    assert speech.seconds > 0
    assert speech.voice


class SpeakerConformance:
    async def test_a_sentence_becomes_a_sound(self, speaker: Speaker) -> None:
        speech = await speaker.speak(SENTENCE)
        check_sound(speech)
        assert 1 < speech.seconds < 15

    async def test_speed_changes_the_length(self, speaker: Speaker) -> None:
        slow = await speaker.speak(SENTENCE, speed=0.5)
        usual = await speaker.speak(SENTENCE)
        quick = await speaker.speak(SENTENCE, speed=2.0)
        assert slow.seconds > 1.3 * usual.seconds
        assert usual.seconds > 1.3 * quick.seconds

    async def test_each_of_the_first_two_voices_speaks(self, speaker: Speaker) -> None:
        voices = await speaker.voices()
        assert voices
        assert all(voice.name and voice.language for voice in voices)
        for voice in voices[:2]:
            check_sound(await speaker.speak("one two three", voice=voice.name))

    async def test_the_error_names_an_unknown_voice(self, speaker: Speaker) -> None:
        with pytest.raises(VoiceUnknown, match="klingon"):
            await speaker.speak("hello", voice="klingon")

    @pytest.mark.parametrize(
        "text", ["", " \n\t", "😀😀", "...!?", "\x00\x07", "\ud83d", "\u200b\u200d", "** __ ``"]
    )
    async def test_a_text_without_words_is_an_error(self, speaker: Speaker, text: str) -> None:
        with pytest.raises(TextUnspeakable, match="nothing to speak"):
            await speaker.speak(text)

    async def test_a_text_over_2000_characters_is_an_error(self, speaker: Speaker) -> None:
        with pytest.raises(TextUnspeakable, match=r"2,?001"):
            await speaker.speak("a" * 2001)

    @pytest.mark.parametrize(
        "text",
        [
            "a\x00b\x1bc",
            "hi \ud83d there",
            "hello 😀",
            "<speak>&amp; [[h@l'oU]]</speak>",
            "\u202eolleh",
            "one\n\n\ntwo",
        ],
    )
    async def test_text_with_unusual_characters_is_spoken(
        self, speaker: Speaker, text: str
    ) -> None:
        check_sound(await speaker.speak(text))

    async def test_the_engine_works_after_an_error(self, speaker: Speaker) -> None:
        with pytest.raises(VoiceUnknown):
            await speaker.speak("hello", voice="no such voice")
        check_sound(await speaker.speak("hello"))
