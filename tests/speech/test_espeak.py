"""Tests of the speaker for espeak-ng, with the installed library."""

import os
import signal

import anyio
import pytest

from nekro_core.speech.espeak import EspeakSpeaker
from nekro_core.speech.speaker import VoiceUnknown
from nekro_core.speech.wav import read_wav
from tests.speech.conformance import SENTENCE, SpeakerConformance, check_sound


@pytest.fixture(scope="module")
async def speaker():
    speaker = EspeakSpeaker()
    yield speaker
    await speaker.aclose()


class TestEspeak(SpeakerConformance):
    pass


@pytest.mark.parametrize(
    ("text", "voice"),
    [
        ("Good night", "en-us"),
        ("晚安，做个好梦", "cmn"),
        ("おやすみなさい", "ja"),
        ("今日は天気がいいですね", "ja"),
        ("안녕히 주무세요", "ko"),
        ("Спокойной ночи", "ru"),
        ("Добраніч, як справи, друже? Їжак", "uk"),
        ("Gute Nacht, schöne Träume", "de"),
        ("Buenas noches, mañana", "es"),
        ("bonne nuit à tous, été", "fr-fr"),
        ("Καληνύχτα", "el"),
        ("你好 hello 42", "cmn"),
    ],
)
async def test_the_language_of_the_text_selects_the_voice(speaker, text: str, voice: str) -> None:
    speech = await speaker.speak(text)
    assert speech.voice == voice
    check_sound(speech)


@pytest.mark.parametrize(
    ("asked", "voice"),
    [
        ("zh", "cmn"),
        ("zh-CN", "cmn"),
        ("EN_US", "en-us"),
        ("ja", "ja"),
        ("en", "en-us"),
        ("en-us+f3", "en-us+f3"),
    ],
)
async def test_a_voice_is_found_by_its_language(speaker, asked: str, voice: str) -> None:
    assert (await speaker.speak("one two", voice=asked)).voice == voice


async def test_an_unknown_voice_variant_is_an_error(speaker) -> None:
    with pytest.raises(VoiceUnknown, match="en-us"):
        await speaker.speak("hello", voice="en-us+nobody")


async def test_the_configured_voice_is_used_only_for_its_own_language() -> None:
    speaker = EspeakSpeaker(voice="en-us+f3")
    assert (await speaker.speak("hello")).voice == "en-us+f3"
    assert (await speaker.speak("你好")).voice == "cmn"
    await speaker.aclose()


async def test_kanji_take_about_as_long_to_speak_as_their_reading_in_kana(speaker) -> None:
    kanji = await speaker.speak("東京へ行きました")
    kana = await speaker.speak("とうきょうえ いきました")
    assert kanji.seconds == pytest.approx(kana.seconds, rel=0.35)


async def test_an_engine_that_is_killed_is_started_again(speaker) -> None:
    await speaker.speak("hello")
    os.kill(speaker._worker.pid, signal.SIGKILL)
    check_sound(await speaker.speak("hello again"))


async def test_the_sound_of_a_cancelled_sentence_is_not_returned_for_the_next(speaker) -> None:
    with anyio.move_on_after(0.02):
        await speaker.speak("word " * 400)
    speech = await speaker.speak("hello")
    assert speech.seconds < 2


async def test_many_sentences_are_spoken_at_once(speaker) -> None:
    lengths: dict[str, float] = {}

    async def one(text: str) -> None:
        lengths[text] = (await speaker.speak(text)).seconds

    async with anyio.create_task_group() as tasks:
        for number in (1, 20, 5, 10):
            tasks.start_soon(one, "hello " * number)
    assert sorted(lengths, key=len) == sorted(lengths, key=lambda text: lengths[text])


async def test_the_process_starts_with_the_first_sentence_and_ends_when_closed() -> None:
    speaker = EspeakSpeaker()
    assert speaker._worker.pid is None
    await speaker.speak(SENTENCE)
    pid = speaker._worker.pid
    await speaker.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_two_thousand_characters_are_spoken(speaker) -> None:
    speech = await speaker.speak("你好" * 1000)
    assert read_wav(speech.wav).seconds > 100
