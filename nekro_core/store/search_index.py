"""Reads and writes the tables of the search index of messages.

`nekro_core.memory.search` splits the messages into terms and ranks them.

The messages of a chat are numbered from 0 in the order of their arrival. Such a number is called a
position. It never changes. The index of a chat consists of segments (parts of the index, not the
segments of a message), one after another. Each segment holds the terms of some consecutive
messages. The terms of a segment are distributed to buckets, and the data of one bucket are a page.
When eight neighbouring segments have the same size, they are merged into one. So a chat with a
million messages has about fifteen segments. The newest messages, up to two hundred, are in no
segment: a search reads them from the table of messages itself. So a message can be found as soon as
it is stored, and a crash cannot lose it from the index.

Other data of the messages in segments, such as their times and vectors, are in blocks of `BLOCK`
consecutive messages.

When a message is recalled, hidden, edited, redacted or deleted, a trigger of the database adds a
row to ``search_changes`` in the same transaction. From then on, searches ignore the terms that the
segments have of this message. `SearchIndexRepository.remove_changed` deletes its terms from the
pages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio
from anyio import to_thread

from nekro_core.chat import ChatKey
from nekro_core.store.database import Database, InsertStatement, Row, SqlStatement
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.search_blocks import (
    BLOCK,
    VECTOR_BYTES,
    BlockTable,
    IndexedMessage,
    SearchBlock,
    block_table,
    decode_block,
    encode_facts,
)
from nekro_core.store.search_pages import without
from nekro_core.system.arrays import NDArray, np

_BUCKET_BITS = 13
"""The id of a page is the id of its segment times two to this power, plus the number of its
bucket."""
_AT_ONCE = 64
"""Number of pages that one step reads or writes: about 0.6 MB. The database needs 2 ms for them."""
_IN_ONE_QUERY = 500
_REMOVED = -100
"""The level of a segment that was merged into a larger segment, while its pages are deleted."""
_CHANGED = -200
"""One query reads both segments and changed messages. In its rows for changed messages, this number
stands in place of the level of a segment."""
_MOST_CHANGES = 20_000
"""Maximum number of changed messages that are removed from a chat's index in one pass."""

_MOST_COUNTED = 600_000
"""Maximum number of records that `SearchIndexRepository.count_before` counts one by one: a little
more than the number of messages of the largest segment."""

_PAGE = InsertStatement("search_pages", ("id", "data"))
_SEGMENT = InsertStatement(
    "search_segments",
    ("id", "chat_key", "level", "start", "count", "terms", "buckets", "first_seq", "last_seq"),
)
_BLOCK_COLUMNS = "number, facts, vectors, encoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSegment:
    """Consecutive messages of a chat whose terms are indexed together.

    Attributes:
        id: The number of the segment, unique among all chats.
        level: 0 for the smallest. A segment of the next level is eight times as large.
        start: The position of its first message in the chat.
        count: How many messages it has.
        terms: How many terms they have together.
        buckets: The number of pages to which its terms are distributed.
        first_seq: The sequence number (`Record.seq`) of its first message.
        last_seq: The sequence number of its last message.
    """

    id: int
    level: int
    start: int
    count: int
    terms: int
    buckets: int
    first_seq: int
    last_seq: int

    def page(self, bucket: int) -> int:
        """Return the id of the page of a bucket, a number from 0 to ``buckets`` - 1."""
        return self.id << _BUCKET_BITS | bucket


class SearchIndexRepository:
    """The segments, pages and blocks of all chats.

    Attributes:
        writing: Hold this lock to change the index. Reads need no lock.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writing = anyio.Lock()
        self._removals = 0

    @property
    def removals(self) -> int:
        """How often messages were removed from the index since the process started. Read this
        number before you read messages, and again before you store what was computed from the
        messages. If the number has changed, do not store that."""
        return self._removals

    async def segments(self, chat_key: ChatKey) -> list[SearchSegment]:
        """Get the segments of a chat that searches use, oldest first."""
        rows = await self._database.read(
            f"SELECT {', '.join(_SEGMENT.columns)} FROM search_segments "
            "WHERE chat_key = ? AND level >= 0 ORDER BY start",
            str(chat_key),
        )
        return [_segment_of(row) for row in rows]

    async def segments_and_changed(
        self, chat_key: ChatKey
    ) -> tuple[list[SearchSegment], list[int]]:
        """Get what `segments` and `changed` return, with one query. On an idle machine, each query
        takes 0.3 ms, most of it to wake the thread of the database."""
        rows = await self._database.read(
            f"SELECT {', '.join(_SEGMENT.columns)} FROM search_segments "
            "WHERE chat_key = ? AND level >= 0 "
            f"UNION ALL SELECT 0, chat_key, {_CHANGED}, 0, 0, 0, 0, seq, seq FROM search_changes "
            "WHERE chat_key = ? ORDER BY start",
            str(chat_key),
            str(chat_key),
        )
        segments = [_segment_of(row) for row in rows if row["level"] != _CHANGED]
        changed = dict.fromkeys(row["first_seq"] for row in rows if row["level"] == _CHANGED)
        return segments, list(changed)

    async def pages(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Get pages by their ids. A page without terms is not stored, so it is not in the
        result."""
        found: dict[int, bytes] = {}
        for some in _slices(ids, _IN_ONE_QUERY):
            rows = await self._database.read(
                f"SELECT id, data FROM search_pages WHERE id IN ({_marks(some)})", *some
            )
            found |= {row["id"]: row["data"] for row in rows}
        return found

    async def blocks(self, chat_key: ChatKey, numbers: Collection[int]) -> dict[int, SearchBlock]:
        """Get blocks of a chat by their numbers. Blocks that are not stored are left out."""
        found: dict[int, SearchBlock] = {}
        for some in _slices(sorted(numbers), _IN_ONE_QUERY):
            rows = await self._database.read(
                f"SELECT {_BLOCK_COLUMNS} FROM search_blocks "
                f"WHERE chat_key = ? AND number IN ({_marks(some)})",
                str(chat_key),
                *some,
            )
            found |= {row["number"]: _block_of(row) for row in rows}
        return found

    async def block_table(
        self, chat_key: ChatKey, numbers: Collection[int], *, vectors: bool = True
    ) -> BlockTable:
        """Get blocks of a chat by their numbers, as one table. With ``vectors`` false, the vectors,
        which are most of the data, are not read; they are all zero in the table."""
        rows: list[Row] = []
        columns = "number, facts, vectors" if vectors else "number, facts"
        for some in _slices(sorted(numbers), _IN_ONE_QUERY):
            rows += await self._database.read(
                f"SELECT {columns} FROM search_blocks "
                f"WHERE chat_key = ? AND number IN ({_marks(some)}) ORDER BY number",
                str(chat_key),
                *some,
            )
        return block_table(
            [row["number"] for row in rows],
            [row["facts"] for row in rows],
            [row["vectors"] for row in rows] if vectors else None,
        )

    async def vectors(self, chat_key: ChatKey) -> list[tuple[int, NDArray[np.uint8]]]:
        """Get the vectors of all messages of a chat: for each block its number, and a row of
        `VECTOR_BYTES` for each message."""
        rows = await self._database.read(
            "SELECT number, vectors FROM search_blocks WHERE chat_key = ? ORDER BY number",
            str(chat_key),
        )
        return [
            (row["number"], np.frombuffer(row["vectors"], np.uint8).reshape(-1, VECTOR_BYTES))
            for row in rows
        ]

    async def ranges_within(
        self, chat_key: ChatKey, since: float, until: float
    ) -> list[tuple[int, int]]:
        """Find the blocks that have only messages from ``since`` up to but not including ``until``,
        in seconds since 1970. Return the first and the last number of each sequence of consecutive
        blocks."""
        rows = await self._database.read(
            "SELECT MIN(number) AS first, MAX(number) AS last FROM ("
            "SELECT number, number - ROW_NUMBER() OVER (ORDER BY number) AS sequence "
            "FROM search_blocks WHERE chat_key = ? AND first_time >= ? AND last_time < ?"
            ") inside GROUP BY sequence ORDER BY first",
            str(chat_key),
            since,
            until,
        )
        return [(row["first"], row["last"]) for row in rows]

    async def blocks_across(
        self, chat_key: ChatKey, since: float, until: float, limit: int
    ) -> list[int]:
        """Get the numbers of the newest blocks that `ranges_within` does not return, but that may
        have messages from ``since`` up to but not including ``until``."""
        rows = await self._database.read(
            "SELECT number FROM search_blocks WHERE chat_key = ? AND last_time >= ? "
            "AND first_time < ? AND (first_time < ? OR last_time >= ?) "
            "ORDER BY number DESC LIMIT ?",
            str(chat_key),
            since,
            until,
            since,
            until,
            limit,
        )
        return [row["number"] for row in rows]

    async def unencoded(self, chat_key: ChatKey, limit: int) -> list[SearchBlock]:
        """Get the newest blocks for whose messages the sentence encoder has not computed vectors
        yet."""
        rows = await self._database.read(
            f"SELECT {_BLOCK_COLUMNS} FROM search_blocks WHERE chat_key = ? AND encoded = ? "
            "ORDER BY number DESC LIMIT ?",
            str(chat_key),
            False,
            limit,
        )
        return [_block_of(row) for row in rows]

    async def count_before(self, chat_key: ChatKey, seq: int) -> int:
        """Count the records of a chat with a smaller number than ``seq``. The number of records in
        each segment is known, so this takes a millisecond in a chat of any size. Records that were
        deleted after they were indexed count too."""
        counted, after = 0, 0
        for segment in await self.segments(chat_key):
            if segment.last_seq >= seq:
                break
            counted, after = counted + segment.count, segment.last_seq
        (row,) = await self._database.read(
            "SELECT COUNT(*) AS count FROM (SELECT 1 FROM messages "
            "WHERE chat_key = ? AND seq > ? AND seq < ? LIMIT ?) counted",
            str(chat_key),
            after,
            seq,
            _MOST_COUNTED,
        )
        return counted + int(row["count"])

    async def changed(self, chat_key: ChatKey) -> list[int]:
        """Get the sequence numbers of the changed or deleted messages of a chat, in no order. The
        segments may still have their old terms."""
        rows = await self._database.read(
            "SELECT DISTINCT seq FROM search_changes WHERE chat_key = ?", str(chat_key)
        )
        return [row["seq"] for row in rows]

    async def chats_with_changes(self) -> list[ChatKey]:
        """Get the chats for which `remove_changed` has something to do."""
        rows = await self._database.read("SELECT DISTINCT chat_key FROM search_changes")
        return [ChatKey.parse(row["chat_key"]) for row in rows]

    async def newest_change(self) -> int:
        """Get the number of the newest row of ``search_changes``; 0 if there is none."""
        (row,) = await self._database.read("SELECT COALESCE(MAX(id), 0) AS id FROM search_changes")
        return int(row["id"])

    async def positions(
        self, chat_key: ChatKey, segments: Sequence[SearchSegment], seqs: Iterable[int]
    ) -> dict[int, int]:
        """Find the positions of messages, by their sequence numbers. Messages that are in no
        segment are left out."""
        found: dict[int, int] = {}
        block: SearchBlock | None = None
        for seq in sorted(seqs):
            if not any(each.first_seq <= seq <= each.last_seq for each in segments):
                continue
            if block is None or not block.seqs[0] <= seq <= block.seqs[-1]:
                rows = await self._database.read(
                    f"SELECT {_BLOCK_COLUMNS} FROM search_blocks "
                    "WHERE chat_key = ? AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1",
                    str(chat_key),
                    seq,
                )
                block = _block_of(rows[0]) if rows else None
            if block is not None:
                at = int(np.searchsorted(block.seqs, seq))
                if at < len(block.seqs) and block.seqs[at] == seq:
                    found[seq] = block.number * BLOCK + at
        return found

    async def add_segment(
        self,
        chat_key: ChatKey,
        segment: SearchSegment,
        pages: Mapping[int, bytes],
        messages: Sequence[IndexedMessage],
        *,
        changes_until: int,
    ) -> None:
        """Add a segment of new messages, in one transaction. Hold `writing`.

        Args:
            chat_key: The chat.
            segment: The segment; its id is not used.
            pages: The pages by their buckets.
            messages: The messages of the segment, in order.
            changes_until: The result of `newest_change` before the messages were read. The texts
                that were read contain all changes up to this one, so the rows of these changes are
                deleted.
        """
        segment = replace(segment, id=await self._next_id())
        blocks: list[SqlStatement] = []
        for at in range(0, len(messages), BLOCK):
            some = messages[at : at + BLOCK]
            times = [each.time for each in some]
            blocks.append(
                SqlStatement(
                    "INSERT INTO search_blocks (chat_key, number, first_seq, first_time, "
                    "last_time, facts, vectors, encoded) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        str(chat_key),
                        (segment.start + at) // BLOCK,
                        some[0].seq,
                        min(times),
                        max(times),
                        encode_facts(some),
                        bytes(VECTOR_BYTES * len(some)),
                        False,
                    ),
                )
            )
        await self._database.write(
            _segment_statement(chat_key, segment),
            *_page_statements(segment, pages),
            *blocks,
            SqlStatement(
                "DELETE FROM search_changes WHERE chat_key = ? AND id <= ? AND seq BETWEEN ? AND ?",
                (str(chat_key), changes_until, segment.first_seq, segment.last_seq),
            ),
        )

    async def begin_merge(self, chat_key: ChatKey, segment: SearchSegment) -> SearchSegment:
        """Add a segment that searches do not use before `finish_merge`, and return it with its id.
        Hold `writing` until `finish_merge` returns."""
        hidden = replace(segment, id=await self._next_id(), level=-1 - segment.level)
        await self._database.write(_segment_statement(chat_key, hidden))
        return replace(hidden, level=segment.level)

    async def add_pages(self, segment: SearchSegment, pages: Mapping[int, bytes]) -> None:
        """Add pages to a segment that `begin_merge` has added."""
        for some in _slices(list(pages), _AT_ONCE):
            part = {bucket: pages[bucket] for bucket in some}
            await self._database.write(*_page_statements(segment, part))

    async def finish_merge(self, segment: SearchSegment, merged: Sequence[SearchSegment]) -> None:
        """Replace the segments ``merged`` by the segment into which they were merged, in one
        transaction. Then delete the pages of the merged segments."""
        ids = [each.id for each in merged]
        await self._database.write(
            SqlStatement(
                f"UPDATE search_segments SET level = ? WHERE id IN ({_marks(ids)})",
                (_REMOVED, *ids),
            ),
            SqlStatement(
                "UPDATE search_segments SET level = ? WHERE id = ?", (segment.level, segment.id)
            ),
        )
        for each in merged:
            await self._delete(each)

    async def delete_unfinished(self, chats: ChatScope = every_chat) -> None:
        """Delete segments that a crash left half written or half deleted, in the chats for which
        ``chats`` returns True. No other process may index these chats."""
        async with self.writing:
            rows = await self._database.read(
                f"SELECT {', '.join(_SEGMENT.columns)} FROM search_segments WHERE level < 0"
            )
            for row in rows:
                if chats(ChatKey.parse(row["chat_key"])):
                    await self._delete(_segment_of(row))

    async def store_vectors(
        self, chat_key: ChatKey, number: int, vectors: bytes, *, removals: int
    ) -> None:
        """Store the vectors of a block, unless messages were removed since their texts were read.

        Args:
            chat_key: The chat.
            number: The number of the block.
            vectors: The vectors of the block's messages, each with `VECTOR_BYTES` bytes.
            removals: The value of `removals` before the texts were read.
        """
        async with self.writing:
            if removals == self._removals:
                await self._database.write(
                    SqlStatement(
                        "UPDATE search_blocks SET vectors = ?, encoded = ? "
                        "WHERE chat_key = ? AND number = ?",
                        (vectors, True, str(chat_key), number),
                    )
                )

    async def remove_changed(self, chat_key: ChatKey) -> Mapping[int, tuple[int, int]]:
        """Delete the terms and vectors of the changed messages of a chat from its index, of at most
        `_MOST_CHANGES` messages in one call. Hold `writing`.

        Returns:
            The messages that still exist, and that must be indexed again (`put_back`): by their
            sequence numbers, the position of each, and its newest change.
        """
        return await self._remove_some(chat_key, await self._changes(chat_key, 0, _MOST_CHANGES))

    async def _changes(self, chat_key: ChatKey, after: int, limit: int) -> dict[int, int]:
        """Get the changed messages of a chat with higher numbers than ``after``: by their sequence
        numbers, the newest change of each."""
        rows = await self._database.read(
            "SELECT seq, MAX(id) AS id FROM search_changes WHERE chat_key = ? AND seq > ? "
            "GROUP BY seq ORDER BY seq LIMIT ?",
            str(chat_key),
            after,
            limit,
        )
        return {row["seq"]: row["id"] for row in rows}

    async def _remove_some(
        self, chat_key: ChatKey, changes: Mapping[int, int]
    ) -> Mapping[int, tuple[int, int]]:
        if not changes:
            return {}
        self._removals += 1
        segments = await self.segments(chat_key)
        places = await self.positions(chat_key, segments, changes)
        for segment in segments:
            dead = np.zeros(segment.count, np.bool_)
            for position in places.values():
                if segment.start <= position < segment.start + segment.count:
                    dead[position - segment.start] = True
            if dead.any():
                await self._remove(chat_key, segment, dead)
        live = await self._live(places)
        done = [changes[seq] for seq in changes if seq not in live]
        for some in _slices(done, _IN_ONE_QUERY):
            await self._database.write(
                SqlStatement(
                    "DELETE FROM search_changes WHERE chat_key = ? AND EXISTS (SELECT 1 "
                    f"FROM search_changes n WHERE n.id IN ({_marks(some)}) "
                    "AND n.seq = search_changes.seq AND n.id >= search_changes.id)",
                    (str(chat_key), *some),
                )
            )
        return {seq: (places[seq], changes[seq]) for seq in live}

    async def put_back(
        self,
        chat_key: ChatKey,
        pages: Mapping[int, bytes],
        position: int,
        message: IndexedMessage,
        *,
        change: int,
    ) -> None:
        """Store the pages, by their ids, to which a message was added again. ``change`` is the
        message's newest change, as `remove_changed` has returned it. Hold `writing`."""
        number, at = divmod(position, BLOCK)
        block = (await self.blocks(chat_key, [number]))[number]
        lengths, traits = block.lengths.copy(), block.traits.copy()
        lengths[at], traits[at] = min(message.length, 255), message.traits
        await self._database.write(
            *(_page_statement(page, data) for page, data in pages.items()),
            _facts_statement(
                chat_key, replace(block, lengths=lengths, traits=traits, encoded=False)
            ),
            SqlStatement(
                "DELETE FROM search_changes WHERE chat_key = ? AND seq = ? AND id <= ?",
                (str(chat_key), message.seq, change),
            ),
        )

    async def remove_of_erased(
        self, chat_keys: Iterable[ChatKey], *, at_once: int = _MOST_CHANGES
    ) -> None:
        """Delete the terms of the changed messages of these chats, and of all other chats that have
        changed messages. When this method returns, the database contains no words of an erased
        person. The terms of at most ``at_once`` messages are deleted in one step."""
        async with self.writing:
            for chat_key in {*chat_keys, *await self.chats_with_changes()}:
                after = 0
                while changes := await self._changes(chat_key, after, at_once):
                    await self._remove_some(chat_key, changes)
                    # Messages that still exist keep their changes until they are indexed again.
                    after = max(changes)

    async def _remove(
        self, chat_key: ChatKey, segment: SearchSegment, dead: NDArray[np.bool_]
    ) -> None:
        if not await self._database.read(
            "SELECT 1 FROM messages WHERE chat_key = ? AND seq BETWEEN ? AND ? LIMIT 1",
            str(chat_key),
            segment.first_seq,
            segment.last_seq,
        ):
            await self._database.write(
                SqlStatement(
                    "DELETE FROM search_blocks WHERE chat_key = ? AND number >= ? AND number < ?",
                    (
                        str(chat_key),
                        segment.start // BLOCK,
                        (segment.start + segment.count) // BLOCK,
                    ),
                )
            )
            await self._delete(segment)
            return
        touched = (np.flatnonzero(dead) + segment.start) // BLOCK
        blocks = await self.blocks(chat_key, set(touched.tolist()))
        for block in blocks.values():
            begin = block.number * BLOCK - segment.start
            gone = dead[begin : begin + len(block.seqs)]
            await self._database.write(
                _facts_statement(
                    chat_key,
                    replace(
                        block,
                        lengths=np.where(gone, 0, block.lengths).astype(np.uint8),
                        traits=np.where(gone, 0, block.traits).astype(np.uint8),
                        vectors=np.where(gone[:, None], 0, block.vectors).astype(np.uint8),
                    ),
                )
            )
        for bucket in range(0, segment.buckets, _AT_ONCE):
            end = min(bucket + _AT_ONCE, segment.buckets)
            pages = await self.pages([segment.page(each) for each in range(bucket, end)])
            cut = await to_thread.run_sync(_cut, pages, dead)
            if cut:
                await self._database.write(
                    *(_page_statement(page, data) for page, data in cut.items())
                )

    async def _live(self, seqs: Collection[int]) -> set[int]:
        """Return which of these messages are still stored and not recalled."""
        found: set[int] = set()
        for some in _slices(sorted(seqs), _IN_ONE_QUERY):
            rows = await self._database.read(
                f"SELECT seq FROM messages WHERE seq IN ({_marks(some)}) AND recalled = ?",
                *some,
                False,
            )
            found |= {row["seq"] for row in rows}
        return found

    async def _delete(self, segment: SearchSegment) -> None:
        for bucket in range(0, segment.buckets, _AT_ONCE):
            await self._database.write(
                SqlStatement(
                    "DELETE FROM search_pages WHERE id >= ? AND id < ?",
                    (segment.page(bucket), segment.page(bucket) + _AT_ONCE),
                )
            )
        await self._database.write(
            SqlStatement("DELETE FROM search_segments WHERE id = ?", (segment.id,))
        )

    async def _next_id(self) -> int:
        if self._database.shared:
            # Other processes add segments of other chats at the same time. So the id comes from the
            # PostgreSQL sequence of the messages' numbers, which gives no number twice. Its numbers
            # are above all earlier ids of segments, because there are far fewer segments than
            # messages.
            (row,) = await self._database.read("SELECT nextval('messages_seq_seq') AS id")
            return int(row["id"])
        (row,) = await self._database.read(
            "SELECT COALESCE(MAX(id), 0) + 1 AS id FROM search_segments"
        )
        return int(row["id"])


def of_erased_chat(chat_key: ChatKey) -> Iterable[SqlStatement]:
    """Return the statements that delete the index of a chat. Hold `SearchIndexRepository.writing`
    while the statements are written. Run the statements after the deletion of the messages."""
    key = (str(chat_key),)
    shift = f"<< {_BUCKET_BITS}"
    yield SqlStatement(
        "DELETE FROM search_pages WHERE id IN (SELECT p.id FROM search_segments s "
        f"JOIN search_pages p ON p.id >= s.id {shift} AND p.id < (s.id + 1) {shift} "
        "WHERE s.chat_key = ?)",
        key,
    )
    for table in ("search_segments", "search_blocks", "search_changes"):
        yield SqlStatement(f"DELETE FROM {table} WHERE chat_key = ?", key)


def _cut(pages: Mapping[int, bytes], dead: NDArray[np.bool_]) -> dict[int, bytes]:
    """Remove the messages ``dead`` from pages. Return the pages that changed, in their new form."""
    changed = ((page, without(data, dead)) for page, data in pages.items())
    return {page: data for page, data in changed if data is not None}


def _segment_statement(chat_key: ChatKey, segment: SearchSegment) -> SqlStatement:
    return SqlStatement(
        _SEGMENT,
        (
            segment.id,
            str(chat_key),
            segment.level,
            segment.start,
            segment.count,
            segment.terms,
            segment.buckets,
            segment.first_seq,
            segment.last_seq,
        ),
    )


def _page_statements(segment: SearchSegment, pages: Mapping[int, bytes]) -> list[SqlStatement]:
    return [SqlStatement(_PAGE, (segment.page(bucket), data)) for bucket, data in pages.items()]


def _page_statement(page: int, data: bytes) -> SqlStatement:
    return SqlStatement(
        "INSERT INTO search_pages (id, data) VALUES (?, ?) "
        "ON CONFLICT (id) DO UPDATE SET data = excluded.data",
        (page, data),
    )


def _facts_statement(chat_key: ChatKey, block: SearchBlock) -> SqlStatement:
    facts = encode_facts(
        [
            IndexedMessage(int(seq), float(time), int(length), int(traits))
            for seq, time, length, traits in zip(
                block.seqs, block.times, block.lengths, block.traits, strict=True
            )
        ]
    )
    return SqlStatement(
        "UPDATE search_blocks SET facts = ?, vectors = ?, encoded = ? "
        "WHERE chat_key = ? AND number = ?",
        (facts, block.vectors.tobytes(), block.encoded, str(chat_key), block.number),
    )


def _segment_of(row: Row) -> SearchSegment:
    return SearchSegment(**{each: row[each] for each in _SEGMENT.columns if each != "chat_key"})


def _block_of(row: Row) -> SearchBlock:
    return decode_block(row["number"], row["facts"], row["vectors"], encoded=bool(row["encoded"]))


def _slices(values: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (values[at : at + size] for at in range(0, len(values), size))


def _marks(values: Sequence[int]) -> str:
    return ", ".join("?" * len(values))
