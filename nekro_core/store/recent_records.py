"""Keeps the newest records of the busiest chats in memory, so that a prompt reads only what has
changed since the previous one.

A prompt shows up to some hundred records. Most of them were in the chat's previous prompt too.
Reading and decoding 400 records takes 4 ms; reading the few changed ones takes 0.2 ms. An unchanged
record is the same object in both results, so a reader can also keep what it has made of a record.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nekro_core.chat import ChatKey, Record

_RECORDS = 8_192
"""Maximum number of records that are kept, of all chats together. A record of an ordinary message
takes about 1 KiB, so these take about 8 MiB. This is enough for all records that the prompts of 20
chats show."""

NOTHING_CHANGED = 2**63
"""The ``first`` of `RecentRecords.note_change` for a change that changed no record."""

ReadRecords = Callable[[ChatKey, int, int], Awaitable[list[Record]]]
"""A function that reads the newest records of a chat, oldest first. Its arguments are the chat, the
maximum number of records, and the lowest number that a record may have."""


@dataclass(slots=True, eq=False)
class _KeptRecords:
    """The records of a chat at the last read.

    Attributes:
        limit: The maximum number of records that the read asked for.
        since: The lowest number that the read asked for.
        stale_from: Records with this number or a higher one must be read again.
        is_whole: Whether ``records`` were all records of the chat.
        reading: Whether a read is under way, so that ``records`` is not complete.
    """

    limit: int
    since: int
    records: list[Record]
    stale_from: int
    reading: bool
    is_whole: bool = False


class RecentRecords:
    """The newest records of some chats. ``read`` reads records from the database.

    It is usable only if `note_change` is called for each change of a record after its commit. So a
    process that shares the database with others must not use it.
    """

    def __init__(self, read: ReadRecords) -> None:
        self._read = read
        self._kept: OrderedDict[ChatKey, _KeptRecords] = OrderedDict()
        self._count = 0

    def note_change(self, chat_key: ChatKey, first: int) -> None:
        """Note that records of the chat were added, changed or deleted. All these records have the
        number ``first`` or a higher one. With ``first`` 0, any record may be among them."""
        kept = self._kept.get(chat_key)
        if kept is None:
            return
        if first == 0 and not kept.reading:
            self._forget(chat_key)
        kept.stale_from = min(kept.stale_from, first)

    def clear(self) -> None:
        """Forget all records. Call this if records of unknown chats were changed."""
        self._kept.clear()
        self._count = 0

    def begins_at(self, chat_key: ChatKey, seq: int) -> bool:
        """Return True if it is certain, without a read, that the chat has no record with a lower
        number than ``seq``."""
        kept = self._kept.get(chat_key)
        if kept is None or kept.reading or not kept.is_whole or kept.stale_from < seq:
            return False
        return not kept.records or kept.records[0].seq >= seq

    async def newest(self, chat_key: ChatKey, limit: int, since: int) -> list[Record]:
        """Get the newest records of a chat, oldest first: at most ``limit``, and none with a number
        below ``since``. Raises `StoreUnavailable`."""
        kept = self._kept.get(chat_key)
        if kept is not None and kept.reading:
            # Another task reads the same chat at this moment. This is rare, so it is not awaited.
            return await self._read(chat_key, limit, since)
        known: list[Record] = []
        stale_from, is_whole = 0, since == 0
        if kept is not None and kept.limit == limit and kept.since <= since:
            stale_from, is_whole = kept.stale_from, kept.is_whole and since == 0
            known = [each for each in kept.records if since <= each.seq < stale_from]
        self._forget(chat_key)
        reading = _KeptRecords(limit, since, known, NOTHING_CHANGED, reading=True)
        self._kept[chat_key] = reading
        records = known
        try:
            # Changes that are committed from here on are noted in ``reading``.
            if stale_from < NOTHING_CHANGED:
                fresh = await self._read(chat_key, limit, max(since, stale_from))
                records = [*known, *fresh][-limit:]
                is_whole = is_whole and len(known) + len(fresh) <= limit and len(fresh) < limit
        except BaseException:
            if self._kept.get(chat_key) is reading:
                del self._kept[chat_key]
            raise
        if self._kept.get(chat_key) is reading:
            reading.records, reading.reading, reading.is_whole = records, False, is_whole
            self._count += len(records)
            self._drop_oldest()
        return [*records]

    def _forget(self, chat_key: ChatKey) -> None:
        kept = self._kept.pop(chat_key, None)
        if kept is not None and not kept.reading:
            self._count -= len(kept.records)

    def _drop_oldest(self) -> None:
        """Forget the chats that were read longest ago until the others have few enough records."""
        if self._count <= _RECORDS:
            return
        for chat_key in [key for key, kept in self._kept.items() if not kept.reading]:
            if self._count <= _RECORDS:
                return
            self._forget(chat_key)
