"""Tests of the transcriber for OpenAI's protocol, with a fake server that recognizes tones."""

import pytest
from pydantic import ValidationError

from nekro_core.speech.choose import open_transcriber
from nekro_core.speech.http_transcriber import HttpTranscriber
from nekro_core.speech.settings import TranscriberSettings
from nekro_core.speech.speaker import EngineUnavailable, SoundUnusable, Transcript
from tests.media.sounds import wav
from tests.peers.listener import TranscriptionServer
from tests.speech.fake_transcriber import FakeTranscriber
from tests.speech.transcriber_conformance import TranscriberConformance

KEY = "sk-transcriber-0123456789"


def settings(base_url: str, **changes) -> TranscriberSettings:
    return TranscriberSettings(base_url=base_url, api_key=KEY, **changes)


@pytest.fixture
def sound() -> bytes:
    return wav()


class TestHttp(TranscriberConformance):
    @pytest.fixture
    async def transcriber(self):
        async with TranscriptionServer() as server:
            transcriber = HttpTranscriber(settings(server.base_url))
            yield transcriber
            await transcriber.aclose()


class TestFake(TranscriberConformance):
    @pytest.fixture
    def transcriber(self):
        return FakeTranscriber()


async def test_the_http_request_has_the_sound_the_language_and_the_key(sound: bytes) -> None:
    async with TranscriptionServer() as server:
        transcriber = HttpTranscriber(
            settings(server.base_url, model="transcriber-1", language="zh")
        )
        assert await transcriber.transcribe(sound) == Transcript(
            text="Humming.", language="english"
        )
        await transcriber.aclose()
    assert server.asked == [
        {
            "path": "/v1/audio/transcriptions",
            "model": "transcriber-1",
            "language": "zh",
            "response_format": "json",
            "file": "voice.wav",
        }
    ]
    assert server.heard == [sound]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            (401, b'{"error": "bad key sk-transcriber-0123456789"}'),
            EngineUnavailable,
            r"401.*\*\*\*",
        ),
        ((500, b"oops"), EngineUnavailable, "500: oops"),
        ((400, b"audio too short"), SoundUnusable, "400: audio too short"),
        ((413, b"too large"), SoundUnusable, "413"),
        ((200, b"<html>"), EngineUnavailable, 'expected JSON such as {"text"'),
        ((200, b'{"text": 3}'), EngineUnavailable, "expected JSON"),
        ((200, b'["text"]'), EngineUnavailable, "expected JSON"),
        ((200, b" " * 2_000_000), EngineUnavailable, "bytes of answer"),
    ],
)
async def test_an_answer_without_a_transcript_is_an_error(
    sound: bytes, answer: tuple[int, bytes], kind: type[Exception], words: str
) -> None:
    async with TranscriptionServer((answer,)) as server:
        transcriber = HttpTranscriber(settings(server.base_url))
        with pytest.raises(kind, match=words) as caught:
            await transcriber.transcribe(sound)
        await transcriber.aclose()
    assert KEY not in str(caught.value)


async def test_an_unreachable_server_is_an_error(sound: bytes) -> None:
    transcriber = HttpTranscriber(settings("http://127.0.0.1:9/v1"))
    with pytest.raises(EngineUnavailable, match=r"127\.0\.0\.1 does not answer"):
        await transcriber.transcribe(sound)
    await transcriber.aclose()


async def test_a_very_long_transcript_is_cut(sound: bytes) -> None:
    endless = b'{"text": "' + b"a" * 500_000 + b'"}'
    async with TranscriptionServer(((200, endless),)) as server:
        transcriber = HttpTranscriber(settings(server.base_url))
        assert len((await transcriber.transcribe(sound)).text) == 20_000
        await transcriber.aclose()


def test_a_transcriber_is_opened_only_if_an_address_is_set() -> None:
    assert open_transcriber(TranscriberSettings()) is None
    assert open_transcriber(settings("https://api.example.com/v1")) is not None
    with pytest.raises(ValidationError, match="base_url"):
        settings("api.example.com")
