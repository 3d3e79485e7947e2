"""A whole bot receives voice messages, and sends voice messages and large files."""

import base64
import hashlib
from collections.abc import AsyncIterator

import httpx
import pytest

from nekro_core.media.plain_wav import plain_wav_seconds
from tests.e2e.whole_bot import WholeBot, fence, until, whole_bot
from tests.media.sounds import amr_narrow, encoded, silk
from tests.peers.listener import TranscriptionServer
from tests.peers.onebot_v11.messages import record

pytestmark = pytest.mark.long

MIB = 1024 * 1024


@pytest.fixture(scope="module")
async def transcriber() -> AsyncIterator[TranscriptionServer]:
    async with TranscriptionServer() as server:
        yield server


@pytest.fixture(scope="module")
async def whole(
    tmp_path_factory: pytest.TempPathFactory, transcriber: TranscriptionServer
) -> AsyncIterator[WholeBot]:
    settings = {"NEKRO_SPEECH__TRANSCRIBER__BASE_URL": transcriber.base_url}
    async with whole_bot(tmp_path_factory.mktemp("media"), **settings) as bot:
        yield bot


@pytest.mark.parametrize(
    ("user", "voice"),
    [
        pytest.param(10101, silk(), id="SILK"),
        pytest.param(10102, amr_narrow(), id="AMR"),
        pytest.param(10103, encoded("ogg", "libopus", 48_000), id="Opus"),
    ],
)
async def test_a_received_voice_is_transcribed_for_the_prompt(
    whole: WholeBot, transcriber: TranscriptionServer, user: int, voice: bytes
) -> None:
    """The words of a received voice are in the prompt."""
    before = len(transcriber.heard)
    await whole.peer.say_in_private(user, record(f"base64://{base64.b64encode(voice).decode()}"))
    await whole.peer.until(lambda: any(c.params.get("user_id") == user for c in whole.peer.sends))
    (asked,) = whole.model.asked[f"onebot_v11-private_{user}"]
    assert "> Humming.\n+ voice " in str(asked.messages[-1]["content"])
    (heard,) = transcriber.heard[before:]
    assert plain_wav_seconds(heard) == pytest.approx(0.5, abs=0.1)


async def test_a_voice_answer_is_sent_as_wav(whole: WholeBot) -> None:
    group = whole.group(fence("send_tts_voice('good night')"))
    await whole.peer.say_in_group(group, 10001, "say good night", at_me=True)
    await until(lambda: any(_of(call, group) for call in whole.peer.sends))
    (sent,) = [call for call in whole.peer.sends if _of(call, group)]
    (segment,) = sent.segments
    assert segment["type"] == "record"
    data = base64.b64decode(segment["data"]["file"].removeprefix("base64://"))
    assert plain_wav_seconds(data)


async def test_a_large_file_is_sent_in_pieces_or_as_a_link(whole: WholeBot) -> None:
    made = b"twelve bytes" * MIB
    code = fence(
        "with open('big.bin', 'wb') as file:\n"
        "    file.write(b'twelve bytes' * 1024 * 1024)\n"
        "send_file('big.bin')"
    )
    group = whole.group(code, code)
    await whole.peer.say_in_group(group, 10001, "the big one", at_me=True)
    await until(lambda: len(_uploads(whole, group)) == 1)
    (upload,) = _uploads(whole, group)
    assert whole.peer.account.placed[upload.params["file"]] == made

    whole.peer.account.takes_pieces = False
    await whole.peer.say_in_group(group, 10001, "once more", at_me=True)
    await until(lambda: len(_uploads(whole, group)) == 2)
    link = _uploads(whole, group)[1].params["file"]
    assert link.startswith(f"{whole.bot.address}/media/")
    async with httpx.AsyncClient(timeout=60) as nobody:
        fetched = await nobody.get(link)
        assert hashlib.sha256(fetched.content).digest() == hashlib.sha256(made).digest()
        forged = await nobody.get(link.replace("/media/", "/media/A"))
        assert forged.status_code == 404
    await whole.others_are_served()


def _of(call, group: int) -> bool:
    return call.params.get("group_id") == group


def _uploads(whole: WholeBot, group: int) -> list:
    return [
        call for call in whole.peer.calls if call.action == "upload_group_file" and _of(call, group)
    ]
