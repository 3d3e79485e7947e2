"""Keeps the search index complete, in the background.

New messages are added in segments of 128. The messages of a database that is older than the index
are added in the same way; after a restart the indexer continues where it stopped. Each step takes
some milliseconds of processor time, in a thread, and one short write. While messages arrive, the
indexer pauses after each step for several times as long as the step took.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
from anyio import to_thread
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.memory.search.message import NOTHING, MessageTerms, message_terms
from nekro_core.memory.search.segments import (
    SMALLEST,
    make_page,
    merged_segment,
    next_merge,
    posting_of,
)
from nekro_core.store import Store, StoreError
from nekro_core.store.database import Row, Rows
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.search_blocks import IndexedMessage
from nekro_core.store.search_index import SearchSegment
from nekro_core.store.search_pages import Postings, bucket_of, merge_pages, with_added

NEWEST = 64
"""Number of the newest messages of a chat that are not put into a segment yet. A message may be
stored a moment after a message with a higher number. If the message with the higher number were
already in a segment, the late message would have no place in the index."""
_LOOK_S = 1.0
"""Seconds between two searches for new messages."""
_SHARE = 4.0
"""While messages arrive, the pause after a step is this many times as long as the step."""
_CHANGES_S = 5.0
"""Seconds between two searches for changed messages."""
_PAGES_AT_ONCE = 16
"""Number of pages that one step of a merge reads from each of the merged segments. A page has the
terms of one bucket (`nekro_core.store.search_index` explains buckets)."""


@dataclass(slots=True)
class _Waiting:
    """The number of messages of a chat that are not in a segment. ``known`` is false until this
    number has been read from the database."""

    messages: int = 0
    known: bool = False


class SearchIndexer:
    """Adds messages to the index, merges segments, and removes messages that were recalled or
    edited. Only one process at a time may index a chat. ``chats`` returns whether this process
    indexes a chat."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        chats: ChatScope = every_chat,
    ) -> None:
        self._store = store
        self._chats = chats
        self._index = store.search_index
        self._clock = clock
        self._waiting: dict[ChatKey, _Waiting] = {}
        self._arriving = False

    async def run(self) -> None:
        """Index until cancelled. If the database fails, try again after `_LOOK_S`."""
        looked_for_changes = 0.0
        begun = False
        while True:
            try:
                if not begun:
                    await self._begin()
                    begun = True
                await self.index_arrived()
                if self._clock() - looked_for_changes >= _CHANGES_S:
                    looked_for_changes = self._clock()
                    await self.index_changes()
            except StoreError as error:
                logger.warning("the index of messages is not complete yet: {}", error)
            await anyio.sleep(_LOOK_S)

    async def index_all(self) -> None:
        """Index all messages that can be indexed at this time, also those that earlier versions of
        the bot stored."""
        await self._begin()
        await self.index_arrived()
        await self.index_changes()

    async def index_arrived(self) -> None:
        """Add the messages that arrived since the last call."""
        self._note_arrived()
        ready = [
            chat_key
            for chat_key, waiting in self._waiting.items()
            if self._chats(chat_key)
            and (not waiting.known or waiting.messages >= SMALLEST + NEWEST)
        ]
        for chat_key in ready:
            while await self._measured(chat_key):
                self._note_arrived()

    async def index_changes(self) -> None:
        """Remove the terms of messages that were recalled, edited or deleted. Then add the new
        terms of the edited messages."""
        for chat_key in filter(self._chats, await self._index.chats_with_changes()):
            async with self._index.writing:
                for seq, (position, change) in (await self._index.remove_changed(chat_key)).items():
                    await self._put_back(chat_key, seq, position, change)

    async def _begin(self) -> None:
        await self._index.delete_unfinished(self._chats)
        for chat_key in await self._store.messages.newest_seqs():
            self._waiting.setdefault(chat_key, _Waiting())

    def _note_arrived(self) -> None:
        arrived = self._store.messages.take_arrived()
        self._arriving = bool(arrived)
        for chat_key, count in arrived.items():
            self._waiting.setdefault(chat_key, _Waiting()).messages += count

    async def _measured(self, chat_key: ChatKey) -> bool:
        """Do one step for a chat: add a segment or merge segments. Then pause. Returns whether
        there is more to do."""
        begun = self._clock()
        more = await self._step(chat_key)
        took = self._clock() - begun
        await anyio.sleep(took * _SHARE if self._arriving else 0)
        return more

    async def _step(self, chat_key: ChatKey) -> bool:
        async with self._index.writing:
            segments = await self._index.segments(chat_key)
            if merging := next_merge(segments):
                await self._merge(chat_key, merging)
                return True
            return await self._add(chat_key, segments)

    async def _add(self, chat_key: ChatKey, segments: list[SearchSegment]) -> bool:
        waiting = self._waiting[chat_key]
        after = segments[-1].last_seq if segments else 0
        changes = await self._index.newest_change()
        rows = await self._store.messages.rows_after(chat_key, after, SMALLEST + NEWEST)
        if len(rows) < SMALLEST + NEWEST:
            waiting.messages, waiting.known = len(rows), True
            return False
        rows = rows[:SMALLEST]
        messages, pages = await to_thread.run_sync(_made, rows)
        start = segments[-1].start + segments[-1].count if segments else 0
        await self._index.add_segment(
            chat_key,
            SearchSegment(
                id=0,
                level=0,
                start=start,
                count=len(rows),
                terms=sum(each.length for each in messages),
                buckets=1,
                first_seq=rows[0]["seq"],
                last_seq=rows[-1]["seq"],
            ),
            pages,
            messages,
            changes_until=changes,
        )
        waiting.messages -= len(rows)
        return True

    async def _merge(self, chat_key: ChatKey, segments: Sequence[SearchSegment]) -> None:
        merged = await self._index.begin_merge(chat_key, merged_segment(segments))
        for begin in range(0, segments[0].buckets, _PAGES_AT_ONCE):
            started = self._clock()
            buckets = range(begin, min(begin + _PAGES_AT_ONCE, segments[0].buckets))
            pages = await self._index.pages([s.page(b) for s in segments for b in buckets])
            made = await to_thread.run_sync(_merged, pages, segments, buckets, merged)
            await self._index.add_pages(merged, made)
            if self._arriving:
                await anyio.sleep((self._clock() - started) * _SHARE)
        await self._index.finish_merge(merged, segments)

    async def _put_back(self, chat_key: ChatKey, seq: int, position: int, change: int) -> None:
        rows = await self._store.messages.rows_numbered([seq])
        if not rows or rows[0]["recalled"]:
            # The message was changed again. The next call of `index_changes` finds that change.
            return
        message = terms_in(rows[0])
        segment = next(
            each
            for each in await self._index.segments(chat_key)
            if each.start <= position < each.start + each.count
        )
        added: dict[int, dict[str, Postings]] = {}
        for term, postings in posting_of(message, position - segment.start):
            page = segment.page(bucket_of(term, segment.buckets))
            added.setdefault(page, {})[term] = postings
        stored = await self._index.pages(list(added))
        await self._index.put_back(
            chat_key,
            {page: with_added(stored.get(page, b""), terms) for page, terms in added.items()},
            position,
            IndexedMessage(seq, rows[0]["time"], message.length, message.traits),
            change=change,
        )


def terms_in(row: Row) -> MessageTerms:
    """Return the terms of the message in this row."""
    if row["recalled"]:
        return NOTHING
    return message_terms(row["segments"], row["author"], row["user_id"], row["user_name"])


def _made(rows: Rows) -> tuple[list[IndexedMessage], dict[int, bytes]]:
    """Return the messages and the pages of a new segment."""
    # Do not cache these terms: the cache of `message_terms` is for the newest messages, which are
    # not in a segment yet.
    found = [
        NOTHING
        if row["recalled"]
        else message_terms.__wrapped__(
            row["segments"], row["author"], row["user_id"], row["user_name"]
        )
        for row in rows
    ]
    messages = [
        IndexedMessage(row["seq"], row["time"], each.length, each.traits)
        for row, each in zip(rows, found, strict=True)
    ]
    return messages, {0: make_page(found)}


def _merged(
    pages: Mapping[int, bytes],
    segments: Sequence[SearchSegment],
    buckets: range,
    merged: SearchSegment,
) -> dict[int, bytes]:
    made: dict[int, bytes] = {}
    for bucket in buckets:
        there = [each for each in segments if each.page(bucket) in pages]
        made |= merge_pages(
            [(each.start - merged.start, pages[each.page(bucket)]) for each in there],
            merged.buckets,
        )
    return made
