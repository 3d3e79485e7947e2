"""Describes the content of files that people posted, before a prompt shows the files for the first
time. Such a description is called a *look*."""

from collections.abc import Sequence

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import Author, File, Media, Record, Segment
from nekro_core.delivery.media.store import MediaStore
from nekro_core.media.file_look import MOST_BYTES, FileLooker, LookKind, look_kind
from nekro_core.store import Store, StoreError

_WAIT_S = 10.0
"""Maximum time in seconds that a prompt waits for the looks. A look into a file takes less than a
second on an idle machine."""
_MOST_FILES = 4
"""Maximum number of records, the newest ones, whose files one prompt looks into."""
_TRIED = 1000
"""The bot remembers for at most this many records how often it tried to look into their files."""
_MOST_TRIES = 2
"""Maximum number of prompts that try to look into a record's files. A first try may fail because
the machine is busy. If the second try fails too, the file itself is probably the cause."""


class FileLooks:
    """Looks into posted files, and stores the looks in their records. A file that has a look is not
    opened again."""

    def __init__(self, store: Store, media: MediaStore, reader: FileLooker) -> None:
        self._store = store
        self._media = media
        self._reader = reader
        self._tried: dict[int, int] = {}

    async def look_into(self, records: Sequence[Record]) -> list[Record]:
        """Look into the files of these records that have no look yet, in at most `_MOST_FILES`
        records, the last ones. Return all records, with the new looks. If a look takes too long,
        its record is returned unchanged."""
        # The types are looked at first, because the history can have hundreds of records.
        with_files = [each for each in records if File in map(type, each.segments)]
        wanted = [each for each in with_files if self._wants(each)][-_MOST_FILES:]
        if not wanted:
            return [*records]
        found: dict[int, Record] = {}

        async def look(record: Record) -> None:
            found[record.seq] = await self._with_looks(record)

        with anyio.move_on_after(_WAIT_S):
            async with anyio.create_task_group() as tasks:
                for record in wanted:
                    self._note_tried(record.seq)
                    tasks.start_soon(look, record, name=f"look into files of {record.chat_key}")
        return [found.get(each.seq, each) for each in records]

    def _wants(self, record: Record) -> bool:
        if record.author is not Author.PERSON or record.recalled:
            return False
        if self._tried.get(record.seq, 0) >= _MOST_TRIES:
            return False
        return any(isinstance(each, File) and _kind(each.media) for each in record.segments)

    def _note_tried(self, seq: int) -> None:
        self._tried[seq] = self._tried.get(seq, 0) + 1
        if len(self._tried) > _TRIED:
            del self._tried[next(iter(self._tried))]

    async def _with_looks(self, record: Record) -> Record:
        segments = tuple([await self._look(record, each) for each in record.segments])
        if segments == record.segments:
            return record
        try:
            return await self._store.messages.reword(record, segments, keep=True) or record
        except StoreError as error:
            logger.error("{}: a look into a file is not stored: {}", record.chat_key, error)
            return msgspec.structs.replace(record, segments=segments)

    async def _look(self, record: Record, segment: Segment) -> Segment:
        kind = _kind(segment.media) if isinstance(segment, File) else None
        if not isinstance(segment, File) or kind is None:
            return segment
        media = segment.media
        data = await self._media.read(record.chat_key, media.path)
        if data is None:
            return segment
        look = await self._reader.look(data, kind, media.name)
        return File(msgspec.structs.replace(media, look=look))


def _kind(media: Media) -> LookKind | None:
    if not media.path or media.look or media.size > MOST_BYTES:
        return None
    return look_kind(media.mime, media.path.rpartition(".")[2])
