"""The voice plugin turns text into a voice message."""

from pathlib import Path

import pytest

from nekro_core.chat import Voice
from nekro_core.speech.wav import read_wav
from nekro_core.tools.outcome import BehaviorReturn, ToolCallFailed
from tests.builtin_plugins.conftest import Call
from tests.plugins.world import GROUP, World


@pytest.mark.parametrize("text", ["Good night!", "晚安！", "おやすみなさい、東京"])
async def test_a_voice_message_reaches_the_chat_that_asks(
    world: World, run: Call, text: str
) -> None:
    said = await run("send_tts_voice", text)
    assert isinstance(said, BehaviorReturn)
    assert text in said.text
    ((chat, segments, run_id),) = world.outgoing.sent
    (voice,) = segments
    assert (chat, run_id) == (GROUP, "run-1")
    assert isinstance(voice, Voice)
    assert voice.text == text
    sound = read_wav(Path(voice.media.path).read_bytes())
    assert sound.seconds > 0.4
    assert sound.peak_amplitude > 1_000


async def test_the_requested_speed_is_used(world: World, run: Call) -> None:
    await run("send_tts_voice", "one two three four", voice="en-gb", speed=2.0)
    await run("send_tts_voice", "one two three four", voice="en-gb", speed=0.5)
    quick, slow = (
        read_wav(Path(segments[0].media.path).read_bytes()).seconds
        for _, segments, _ in world.outgoing.sent
    )
    assert slow > 2 * quick


@pytest.mark.parametrize(
    ("text", "voice", "says"),
    [
        ("", None, "nothing to speak"),
        ("🎉", None, "nothing to speak"),
        ("a" * 2_001, None, "2,000"),
        ("hello", "klingon", "no voice 'klingon'"),
    ],
)
async def test_the_error_for_an_impossible_voice_message_says_what_is_wrong(
    world: World, run: Call, text: str, voice: str | None, says: str
) -> None:
    failed = await run("send_tts_voice", text, voice=voice)
    assert isinstance(failed, ToolCallFailed)
    assert says in failed.message
    assert not world.outgoing.sent
