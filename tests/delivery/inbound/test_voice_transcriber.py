"""Voices of stored messages are decoded and transcribed, and their words are added to the
record."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Record, Text, Voice
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.inbound.voice_transcriber import VoiceTranscriber
from nekro_core.delivery.media.store import MediaStore
from nekro_core.media.converter import MediaConverter
from nekro_core.speech.settings import TranscriberSettings
from nekro_core.store import Store
from tests.delivery.conftest import GROUP
from tests.delivery.fakes import message
from tests.media.sounds import silk, tone, wav
from tests.speech.fake_transcriber import FakeTranscriber


class Chat:
    """A chat with voice messages, and its transcriber."""

    def __init__(
        self,
        store: Store,
        inbox: Inbox,
        activity: Broadcast,
        folder: Path,
        transcriber: FakeTranscriber,
    ) -> None:
        self.store, self.inbox, self.transcriber = store, inbox, transcriber
        self.media = MediaStore(folder)
        settings = TranscriberSettings(wait_s=5)
        self.hearing = VoiceTranscriber(
            store, activity, self.media, MediaConverter(), transcriber, settings
        )

    async def say(self, data: bytes, **more: object) -> Record:
        media = await self.media.keep_bytes(GROUP, data, name="v", expect="audio")
        spoken = message(GROUP, segments=(Voice(media),), **more)  # type: ignore[arg-type]
        record = await self.inbox.accept(self.inbox.stamp(spoken))
        assert record is not None
        return record

    async def now(self, record: Record) -> Record | None:
        return await self.store.messages.get(record.seq)


@asynccontextmanager
async def _open(
    store: Store, inbox: Inbox, activity: Broadcast, folder: Path, transcriber: FakeTranscriber
) -> AsyncIterator[Chat]:
    chat = Chat(store, inbox, activity, folder, transcriber)
    async with chat.hearing:
        yield chat


@pytest.fixture
async def chat(
    store: Store, inbox: Inbox, activity: Broadcast, tmp_path: Path
) -> AsyncIterator[Chat]:
    async with _open(store, inbox, activity, tmp_path, FakeTranscriber("hello")) as chat:
        yield chat


@pytest.fixture
async def slow(
    store: Store, inbox: Inbox, activity: Broadcast, tmp_path: Path
) -> AsyncIterator[Chat]:
    transcriber = FakeTranscriber("hello", go=anyio.Event())
    async with _open(store, inbox, activity, tmp_path, transcriber) as chat:
        yield chat


async def test_watchers_get_the_record_again_when_it_has_the_words_of_its_voice(
    chat: Chat, activity: Broadcast
) -> None:
    record = await chat.say(wav())
    async with activity.watch(GROUP) as activities:
        assert chat.hearing.begin(record)
        with anyio.fail_after(30):
            news = await anext(activities)
    assert isinstance(news, Recorded)
    (voice,) = news.record.segments
    assert isinstance(voice, Voice)
    assert (voice.text, voice.media.seconds) == ("hello", 0.5)
    assert await chat.now(record) == news.record == await chat.hearing.transcribed(record)


async def test_texts_and_transcribed_voices_and_voices_of_the_bot_are_skipped(chat: Chat) -> None:
    accepted = await chat.inbox.accept(chat.inbox.stamp(message(GROUP, "hi")))
    assert accepted is not None
    own = await chat.say(wav(), user="bot", message_id="own")
    with_text = message(
        GROUP, segments=(Voice((await chat.say(wav())).segments[0].media, "known"),)
    )
    known = await chat.inbox.accept(chat.inbox.stamp(with_text))
    assert known is not None
    assert [chat.hearing.begin(each) for each in (accepted, own, known)] == [False] * 3
    with anyio.fail_after(0.1):
        await chat.hearing.settled(GROUP)


async def test_a_voice_recalled_during_transcription_stays_recalled(slow: Chat) -> None:
    record = await slow.say(wav(), message_id="m1")
    slow.hearing.begin(record)
    await slow.store.messages.recall(GROUP, "m1")
    assert slow.transcriber.go is not None
    slow.transcriber.go.set()
    await slow.hearing.settled(GROUP)
    now = await slow.now(record)
    assert now is not None
    assert now.recalled
    assert now.segments == record.segments


async def test_a_record_that_was_changed_during_the_transcription_is_not_overwritten(
    slow: Chat,
) -> None:
    record = await slow.say(wav())
    slow.hearing.begin(record)
    await slow.store.messages.reword(record, (Text("erased"),))
    assert slow.transcriber.go is not None
    slow.transcriber.go.set()
    await slow.hearing.settled(GROUP)
    now = await slow.now(record)
    assert now is not None
    assert now.segments == (Text("erased"),)


async def test_at_most_eight_waiting_voices_of_a_chat_are_transcribed(slow: Chat) -> None:
    records = [await slow.say(wav()) for _ in range(10)]
    assert [slow.hearing.begin(record) for record in records] == [True] * 8 + [False] * 2
    assert slow.hearing.begin(records[0])  # this transcription has begun and has not ended
    assert slow.transcriber.go is not None
    slow.transcriber.go.set()
    await slow.hearing.settled(GROUP)
    assert len(slow.transcriber.heard) == 8
    assert not slow.hearing.begin(records[0])  # this transcription has ended


async def test_a_broken_voice_does_not_keep_the_next_from_being_transcribed(chat: Chat) -> None:
    broken = await chat.say(b"\x02#!SILK_V3" + b"\x05\0" + b"12345" * 3)
    fine = await chat.say(silk())
    assert chat.hearing.begin(broken)
    assert chat.hearing.begin(fine)
    await chat.hearing.settled(GROUP)
    assert await chat.now(broken) == broken
    now = await chat.now(fine)
    assert now is not None
    (voice,) = now.segments
    assert isinstance(voice, Voice)
    assert (voice.text, voice.media.mime, voice.media.name) == ("hello", "audio/wav", "voice.wav")


async def test_files_that_no_record_names_are_deleted(slow: Chat, tmp_path: Path) -> None:
    """The replaced file is deleted. If the record was erased meanwhile, the new file is deleted
    too."""
    first = await slow.say(silk(), message_id="first")
    again = await slow.say(silk(), message_id="the same sound, sent on")
    erased = await slow.say(silk(pcm=tone(0.3)), message_id="erased")
    assert [slow.hearing.begin(each) for each in (first, again, erased)] == [True] * 3
    await slow.store.messages.reword(erased, (Text("erased"),))
    assert slow.transcriber.go is not None
    slow.transcriber.go.set()
    await slow.hearing.settled(GROUP)
    kept = set()
    for record in (first, again):
        now = await slow.now(record)
        assert now is not None
        (voice,) = now.segments
        assert isinstance(voice, Voice)
        assert voice.media.mime == "audio/wav"
        kept.add(voice.media.path)
    (original,) = erased.segments
    assert isinstance(original, Voice)
    files = {str(path) for path in (tmp_path / "uploads").rglob("*") if path.is_file()}
    # A real erasure also deletes the record's file. Here the record only got another text.
    assert files == kept | {original.media.path}


async def test_a_voice_whose_file_is_missing_stays_unchanged(chat: Chat) -> None:
    record = await chat.say(wav())
    (voice,) = record.segments
    assert isinstance(voice, Voice)
    Path(voice.media.path).unlink()
    chat.hearing.begin(record)
    await chat.hearing.settled(GROUP)
    assert await chat.now(record) == record


async def test_transcription_ends_when_the_bot_ends(
    store: Store, inbox: Inbox, activity: Broadcast, tmp_path: Path
) -> None:
    transcriber = FakeTranscriber(go=anyio.Event())
    with anyio.fail_after(30):
        async with _open(store, inbox, activity, tmp_path, transcriber) as chat:
            chat.hearing.begin(await chat.say(wav()))
            while not transcriber.heard:
                await anyio.sleep(0.005)
