"""Finds the messages of a chat that have a term: in the pages of the index, and in the newest
messages, which are not in a segment of the index yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from anyio import to_thread

from nekro_core.chat import ChatKey
from nekro_core.memory.search.indexer import terms_in
from nekro_core.memory.search.message import MessageTerms
from nekro_core.store import Store
from nekro_core.store.database import Row
from nekro_core.store.search_index import SearchSegment
from nekro_core.store.search_pages import (
    Postings,
    bucket_of,
    positions,
    posting,
    postings_of,
)
from nekro_core.system.arrays import NDArray, np

NEWEST_READ = 600
"""Maximum number of messages outside of segments that a search reads. If there are more, it reads
the newest. Usually there are at most two hundred; there are more only if the indexer is late."""

Positions: TypeAlias = "NDArray[np.int64]"
Floats: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class TermHits:
    """The messages that have a term, in order.

    Attributes:
        positions: Their positions in the chat.
        postings: For each message, how often it has the term, and how many terms it has, packed as
            in the index. The part of a posting that is a position is not used here.
    """

    positions: Positions
    postings: Postings

    def at(self, places: Positions) -> tuple[NDArray[np.bool_], Postings]:
        """Return for each of these positions whether the message has the term, and its posting. If
        the message does not have the term, ignore its posting: it is that of another message."""
        indices = np.searchsorted(self.positions, places)
        indices[indices == len(self.positions)] = 0
        return self.positions[indices] == places, self.postings[indices]


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that is not in a segment yet, with its terms."""

    seq: int
    time: float
    found: MessageTerms
    name: str


@dataclass(frozen=True, slots=True)
class ChatView:
    """The data of a chat that a search reads first. A *position* numbers the messages of a chat
    from 0: first the messages in segments, then ``newest``, then ``edited``.

    Attributes:
        chat_key: The chat.
        segments: The segments of the chat.
        indexed: The number of positions in segments.
        newest: The newest messages that were not recalled.
        unread: Whether there are messages between the segments and ``newest``, because the indexer
            is late.
        removed: The positions of messages that were recalled, edited or deleted after they were
            indexed.
        edited: The removed messages that still exist, in their new form.
    """

    chat_key: ChatKey
    segments: Sequence[SearchSegment]
    indexed: int
    newest: Sequence[NewMessage]
    unread: bool
    removed: Positions
    edited: Sequence[NewMessage]

    @property
    def loose(self) -> Sequence[NewMessage]:
        """The messages that are not read from segments: ``newest`` and ``edited``."""
        return (*self.newest, *self.edited)

    @property
    def total(self) -> int:
        """The number of positions."""
        return self.indexed + len(self.newest) + len(self.edited)

    @property
    def mean_length(self) -> float:
        """The mean number of terms of a message."""
        terms = sum(each.terms for each in self.segments)
        terms += sum(each.found.length for each in self.loose)
        return max(terms / max(self.total, 1), 1.0)


async def view_of(store: Store, chat_key: ChatKey) -> ChatView:
    """Read the data of a chat that a search needs before all other data."""
    index = store.search_index
    segments, changed = await index.segments_and_changed(chat_key)
    after = segments[-1].last_seq if segments else 0
    rows = await store.messages.newest_rows(chat_key, after, NEWEST_READ)
    unread = False
    if len(rows) == NEWEST_READ:
        (oldest,) = await store.messages.rows_after(chat_key, after, 1)
        unread = bool(oldest["seq"] < rows[0]["seq"])
    places = await index.positions(chat_key, segments, changed) if changed else {}
    edited = await store.messages.rows_numbered(places) if places else []
    return ChatView(
        chat_key=chat_key,
        segments=segments,
        indexed=segments[-1].start + segments[-1].count if segments else 0,
        newest=_present(rows),
        unread=unread,
        removed=np.array(sorted(places.values()), np.int64),
        edited=_present(edited),
    )


async def hits_of(store: Store, view: ChatView, terms: Iterable[str]) -> dict[str, TermHits]:
    """Find, for each of the terms, the messages that have it. A term without messages is left
    out."""
    wanted = list(dict.fromkeys(terms))
    pages: dict[int, tuple[SearchSegment, list[str]]] = {}
    for segment in view.segments:
        for term in wanted:
            page = segment.page(bucket_of(term, segment.buckets))
            pages.setdefault(page, (segment, []))[1].append(term)
    stored = await store.search_index.pages(list(pages))
    if len(stored) > _IN_THREAD:
        return await to_thread.run_sync(_joined, view, wanted, pages, stored)
    return _joined(view, wanted, pages, stored)


_IN_THREAD = 1000
"""If a search reads more pages than this, they are decoded in a thread, so that the event loop does
not wait. Decoding a page takes 8 µs."""


def _joined(
    view: ChatView,
    terms: Sequence[str],
    pages: Mapping[int, tuple[SearchSegment, list[str]]],
    stored: Mapping[int, bytes],
) -> dict[str, TermHits]:
    parts: dict[str, list[tuple[int, Postings]]] = {}
    for page, (segment, some) in pages.items():
        if (data := stored.get(page)) is not None:
            for term, postings in postings_of(data, some).items():
                parts.setdefault(term, []).append((segment.start, postings))
    loose = _of_loose(view, terms)
    found: dict[str, TermHits] = {}
    for term in terms:
        if term not in parts and term not in loose:
            continue
        hits = _united(parts.get(term, []), loose.get(term, []))
        if len(view.removed):
            kept = ~np.isin(hits.positions, view.removed)
            hits = TermHits(hits.positions[kept], hits.postings[kept])
        if len(hits.positions):
            found[term] = hits
    return found


def _united(parts: Sequence[tuple[int, Postings]], loose: Sequence[tuple[int, int]]) -> TermHits:
    """Unite the hits of one term.

    Args:
        parts: For each segment, the position of its first message, and the postings of the term.
        loose: The position and the posting of each message that is not read from a segment.
    """
    packed = [postings for _, postings in parts]
    if loose:
        packed.append(np.array([posting for _, posting in loose], np.uint32))
    postings = packed[0] if len(packed) == 1 else np.concatenate(packed)
    places = np.empty(len(postings), np.int64)
    end = 0
    for start, some in parts:
        begin, end = end, end + len(some)
        # A common term is in a third of all messages. Writing the positions directly into the
        # result is five times as fast as making an array for each segment and joining the arrays,
        # because the kernel must clear the memory of each new large array.
        np.add(positions(some), start, out=places[begin:end])
    places[end:] = [position for position, _ in loose]
    return TermHits(places, postings)


def _of_loose(view: ChatView, terms: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    wanted = set(terms)
    for position, message in enumerate(view.loose, view.indexed):
        has = message.found.terms
        for term in wanted.intersection(has):
            packed = posting(0, has[term], message.found.length)
            found.setdefault(term, []).append((position, packed))
    return found


def _present(rows: Iterable[Row]) -> list[NewMessage]:
    return [
        NewMessage(row["seq"], row["time"], terms_in(row), row["user_name"])
        for row in rows
        if not row["recalled"]
    ]
