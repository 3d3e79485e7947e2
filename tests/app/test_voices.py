"""If an endpoint of the role ``hear`` or ``speak`` fails, the next endpoint of the same role stands
in."""

import pytest

from nekro_core.app.voices import ChainTranscriber, speaker_of, transcriber_of
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.speech.settings import SpeechSettings, TranscriberSettings
from nekro_core.speech.speaker import EngineUnavailable, SoundUnusable, Transcript, VoiceUnknown
from tests.peers.speech import SpeechServer


def groups(**servers: SpeechServer) -> dict[str, ModelGroupSettings]:
    return {
        name: ModelGroupSettings(base_url=server.base_url, model=name)
        for name, server in servers.items()
    }


async def test_the_next_endpoint_speaks_and_the_failed_one_is_not_asked_for_a_while() -> None:
    async with SpeechServer(((503, b"busy"),)) as first, SpeechServer() as second:
        speaker = speaker_of(
            RoleSettings(speak=("one", "two")),
            groups(one=first, two=second),
            SpeechSettings(voice="alloy"),
        )
        try:
            for _ in range(2):
                assert (await speaker.speak("hello")).voice == "alloy"
        finally:
            await speaker.aclose()
        assert [each["model"] for each in first.asked] == ["one"]
        assert [each["model"] for each in second.asked] == ["two", "two"]


async def test_a_voice_that_no_endpoint_offers_is_named_in_the_error() -> None:
    async with SpeechServer() as first:
        speaker = speaker_of(
            RoleSettings(speak=("one",)), groups(one=first), SpeechSettings(voice="alloy")
        )
        try:
            with pytest.raises(VoiceUnknown):
                await speaker.speak("hello", voice="nobody")
        finally:
            await speaker.aclose()


async def test_without_the_roles_the_configured_engines_are_used() -> None:
    assert transcriber_of(RoleSettings(), {}, TranscriberSettings()) is None
    speaker = speaker_of(RoleSettings(), {}, SpeechSettings())
    assert speaker.name == "espeak"
    await speaker.aclose()


class Engine:
    """A transcriber with scripted answers."""

    name = "scripted"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = [*answers]
        self.asked = 0

    async def transcribe(self, wav: bytes) -> Transcript:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Transcript(text=answer)

    async def aclose(self) -> None:
        """Do nothing."""


async def test_the_next_engine_transcribes_unless_the_sound_itself_is_unusable() -> None:
    first = Engine(EngineUnavailable("gone"), EngineUnavailable("gone"))
    second = Engine("hello", SoundUnusable("noise"), EngineUnavailable("gone too"))
    chain = ChainTranscriber([first, second], RoleSettings())
    assert (await chain.transcribe(b"")).text == "hello"
    with pytest.raises(SoundUnusable):
        await chain.transcribe(b"")
    assert first.asked == 1, "a failed engine is not asked for a while"
    with pytest.raises(EngineUnavailable, match="role hear"):
        await chain.transcribe(b"")
    assert first.asked == 2, "a failed engine is asked again if all others fail"
