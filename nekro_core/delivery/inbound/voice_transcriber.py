"""Transcribes voice messages, and converts formats that browsers cannot play to WAV."""

from collections import Counter, defaultdict
from types import TracebackType
from typing import Self

import anyio
import msgspec
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.chat import Author, ChatKey, Media, Record, Segment, Segments, Voice
from nekro_core.delivery.activity import Broadcast, Recorded
from nekro_core.delivery.clean import clean_text
from nekro_core.delivery.media.store import MediaStore
from nekro_core.media.converter import MediaConverter
from nekro_core.media.errors import MediaError
from nekro_core.media.plain_wav import plain_wav_seconds
from nekro_core.speech.settings import TranscriberSettings
from nekro_core.speech.speaker import SpeechError, Transcriber
from nekro_core.store import Store, StoreError
from nekro_core.system.background_tasks import background_tasks

_AT_ONCE = 4
"""Maximum number of voices that are transcribed at the same time, in all chats together."""
_MOST_WAITING = 8
"""Maximum number of voices of one chat that wait or are being transcribed. Further voices count as
a flood and are not transcribed."""
_TRIED = 1000
"""The bot remembers this many records whose transcription it tried. So it does not pay again for a
record whose transcription failed."""
_UNPLAYABLE = frozenset({"audio/silk", "audio/amr"})
"""Types that neither browsers nor Python can read. They are converted to WAV even if there is no
transcriber."""


class VoiceTranscriber:
    """Transcribes the voices of stored messages. An async context manager.

    A record is stored, shown and passed to the sessions before its voices have a text. The record
    is changed when its voices are transcribed and, if needed, converted to WAV. Code that needs the
    text waits with `settled` or `transcribed`, at most for ``wait_s`` seconds, which is a setting.
    Without a ``transcriber`` voices get no text. A voice that cannot be decoded or transcribed
    stays unchanged, and the log says why.
    """

    def __init__(
        self,
        store: Store,
        activity: Broadcast,
        media: MediaStore,
        converter: MediaConverter,
        transcriber: Transcriber | None,
        settings: TranscriberSettings | None = None,
    ) -> None:
        self._store = store
        self._activity = activity
        self._media = media
        self._converter = converter
        self._transcriber = transcriber
        self._settings = settings or TranscriberSettings()
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)
        self._waiting: Counter[ChatKey] = Counter()
        self._done: dict[ChatKey, anyio.Event] = {}
        self._in_progress: dict[int, Record] = {}
        self._tried: dict[int, None] = {}
        self._replaced: defaultdict[ChatKey, set[str]] = defaultdict(set)
        self._background = background_tasks()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await self._background.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._background.__aexit__(kind, error, trace)

    def begin(self, record: Record) -> bool:
        """Begin to transcribe the voices of a person's record. Returns True if this has begun and
        has not ended; an earlier call may have begun it. Returns False if the record has nothing to
        transcribe or to convert, if the transcription has ended, or if too many voices of the chat
        wait."""
        assert self._tasks is not None, "enter the transcriber first"
        if record.author is not Author.PERSON or not any(map(self._wants, record.segments)):
            return False
        key = record.chat_key
        if record.seq in self._in_progress:
            return True
        if record.seq in self._tried:
            return False
        if self._waiting[key] >= _MOST_WAITING:
            logger.info(
                "{}: {} voices wait already; one more is not transcribed", key, _MOST_WAITING
            )
            return False
        self._waiting[key] += 1
        self._in_progress[record.seq] = record
        self._done.setdefault(key, anyio.Event())
        self._tasks.start_soon(self._work, record, name=f"voice of {key}")
        return True

    async def settled(self, chat_key: ChatKey) -> None:
        """Wait until no voice of the chat waits or is being transcribed, at most ``wait_s``."""
        done = self._done.get(chat_key)
        if done is not None:
            with anyio.move_on_after(self._settings.wait_s):
                await done.wait()

    async def transcribed(self, record: Record) -> Record:
        """If the voices of a record wait or are being transcribed, wait until no voice of its chat
        does, at most ``wait_s``. Return the record as it is stored then."""
        with anyio.move_on_after(self._settings.wait_s):
            while record.seq in self._in_progress:
                await self._done[record.chat_key].wait()
        return await self._store.messages.get(record.seq) or record

    def _wants(self, segment: Segment) -> bool:
        if not isinstance(segment, Voice) or not segment.media.path:
            return False
        if segment.media.mime in _UNPLAYABLE:
            return True
        return self._transcriber is not None and not segment.text

    async def _work(self, record: Record) -> None:
        key = record.chat_key
        try:
            async with self._limiter:
                segments = tuple([await self._transcribe(key, each) for each in record.segments])
            if segments != record.segments:
                revised = await self._store.messages.reword(record, segments)
                if revised is not None:
                    self._activity.publish(Recorded(revised))
                # Delete each file that no record names any more. If the person is erased later,
                # only files that a record names are found and deleted.
                of_no_record = segments if revised is None else record.segments
                of_record = record.segments if revised is None else segments
                self._replaced[key] |= _paths(of_no_record) - _paths(of_record)
        except StoreError as error:
            logger.error(
                "{}: the transcript of record {} is not stored: {}", key, record.seq, error
            )
        finally:
            del self._in_progress[record.seq]
            self._tried[record.seq] = None
            if len(self._tried) > _TRIED:
                del self._tried[next(iter(self._tried))]
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
                done = self._done.pop(key)
                await self._tidy(key)
                done.set()

    async def _tidy(self, key: ChatKey) -> None:
        """Delete the replaced files. This runs only when no voice of the chat is being transcribed,
        because two identical voices share one file."""
        for path in self._replaced.pop(key, set()):
            try:
                await self._media.forget(key, path)
            except OSError as error:
                logger.warning("{}: {} cannot be deleted: {}", key, path, error)

    async def _transcribe(self, key: ChatKey, segment: Segment) -> Segment:
        if not self._wants(segment):
            return segment
        assert isinstance(segment, Voice)
        voice = segment
        try:
            data = await self._media.read(key, voice.media.path)
            if data is None:
                return voice
            wav, media = await self._as_wav(key, voice.media, data)
            voice = msgspec.structs.replace(voice, media=media)
            if self._transcriber is not None and not voice.text:
                transcript = await self._transcriber.transcribe(wav)
                voice = msgspec.structs.replace(voice, text=clean_text(transcript.text))
        except (MediaError, SpeechError, OSError) as error:
            logger.warning("{}: a voice is not transcribed: {}", key, error)
        return voice

    async def _as_wav(self, key: ChatKey, media: Media, data: bytes) -> tuple[bytes, Media]:
        """Return the sound as WAV, and the medium for the record. This medium is the original file,
        or the WAV file if browsers cannot play the original."""
        seconds = plain_wav_seconds(data)
        if seconds is not None:
            return data, msgspec.structs.replace(media, seconds=seconds)
        longest = self._settings.longest_s
        sound = await self._converter.sound(data, media.mime, max_seconds=longest)
        if media.mime not in _UNPLAYABLE:
            return sound.data, msgspec.structs.replace(media, seconds=sound.seconds)
        name = f"{media.name.rpartition('.')[0] or 'voice'}.wav"
        kept = await self._media.keep_bytes(key, sound.data, name=name, expect="audio")
        if kept.problem:
            return sound.data, media
        return sound.data, msgspec.structs.replace(kept, seconds=sound.seconds)


def _paths(segments: Segments) -> set[str]:
    return {each.media.path for each in segments if isinstance(each, Voice)}
