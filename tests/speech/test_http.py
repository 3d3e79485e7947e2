"""Tests of the speaker for OpenAI's speech protocol, with a fake server that returns a tone."""

import pytest

from nekro_core.speech.http import HttpSpeaker
from nekro_core.speech.settings import SpeechSettings
from nekro_core.speech.speaker import EngineUnavailable
from tests.peers.speech import SpeechServer
from tests.speech.conformance import SpeakerConformance, check_sound

KEY = "sk-voice-0123456789"


def settings(base_url: str, **changes) -> SpeechSettings:
    return SpeechSettings(engine="http", base_url=base_url, api_key=KEY, **changes)


class TestHttp(SpeakerConformance):
    @pytest.fixture
    async def speaker(self):
        async with SpeechServer() as server:
            speaker = HttpSpeaker(settings(server.base_url))
            yield speaker
            await speaker.aclose()


async def test_the_http_request_has_the_text_the_voice_and_the_key() -> None:
    async with SpeechServer() as server:
        speaker = HttpSpeaker(settings(server.base_url, model="hum-1", voice="echo"))
        check_sound(await speaker.speak("你好", speed=1.5))
        await speaker.aclose()
    assert server.asked == [
        {
            "model": "hum-1",
            "input": "你好",
            "voice": "echo",
            "speed": 1.5,
            "response_format": "wav",
        }
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((401, f"bad key {KEY}".encode()), "401"),
        ((500, b"oops"), "oops"),
        ((200, b"ID3 an mp3 file"), "did not send a WAV file"),
        ((200, b""), "did not send a WAV file"),
    ],
)
async def test_an_answer_without_a_sound_is_an_error(answer, says: str) -> None:
    async with SpeechServer((answer,)) as server:
        speaker = HttpSpeaker(settings(server.base_url))
        with pytest.raises(EngineUnavailable, match=says) as raised:
            await speaker.speak("hello")
        await speaker.aclose()
    assert KEY not in str(raised.value)


async def test_an_unreachable_server_is_an_error() -> None:
    async with SpeechServer() as server:
        address = server.base_url
    speaker = HttpSpeaker(settings(address))
    with pytest.raises(EngineUnavailable, match="does not answer"):
        await speaker.speak("hello")
    await speaker.aclose()
