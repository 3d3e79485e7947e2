"""Makes segments of the search index from messages, and merges them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nekro_core.memory.search.message import MessageTerms
from nekro_core.store.search_index import SearchSegment
from nekro_core.store.search_pages import (
    MAX_POSITIONS,
    Postings,
    bucket_of,
    decode_page,
    encode_page,
    moved,
    posting,
)

SMALLEST = 128
"""Number of messages of a segment of level 0."""
MERGED = 8
"""Number of segments that are merged into one of the next level."""
TOP_LEVEL = 4
"""Segments of this level, with 524,288 messages, are not merged: a posting could not hold the
position."""
assert SMALLEST * MERGED**TOP_LEVEL <= MAX_POSITIONS


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message, as the index needs it.

    Attributes:
        seq: Its number in the store.
        time: Its time, in seconds since 1970.
        found: What the index holds of it.
    """

    seq: int
    time: float
    found: MessageTerms


def make_pages(messages: Iterable[MessageTerms], buckets: int) -> dict[int, bytes]:
    """Return the pages of a segment that has these messages, by bucket."""
    terms: dict[str, list[int]] = {}
    for position, message in enumerate(messages):
        length = message.length
        for term, count in message.terms.items():
            terms.setdefault(term, []).append(posting(position, count, length))
    return _pages(((term, np.array(each, "<u4")) for term, each in terms.items()), buckets)


def next_merge(segments: Sequence[SearchSegment]) -> Sequence[SearchSegment]:
    """Return the next neighbouring segments of one level that are to be merged; none if there are
    fewer than `MERGED` of them."""
    for begin in range(len(segments) - MERGED + 1):
        some = segments[begin : begin + MERGED]
        level = some[0].level
        ends = (each.start + each.count for each in some[:-1])
        adjacent = all(end == after.start for end, after in zip(ends, some[1:], strict=True))
        if level < TOP_LEVEL and adjacent and all(each.level == level for each in some):
            return some
    return ()


def merged_segment(segments: Sequence[SearchSegment]) -> SearchSegment:
    """Return the segment into which these are merged. It has no id yet."""
    first, last = segments[0], segments[-1]
    return SearchSegment(
        id=0,
        level=first.level + 1,
        start=first.start,
        count=sum(each.count for each in segments),
        terms=sum(each.terms for each in segments),
        buckets=first.buckets * MERGED,
        first_seq=first.first_seq,
        last_seq=last.last_seq,
    )


def merge_pages(
    pages: Sequence[tuple[SearchSegment, bytes | None]], merged: SearchSegment
) -> dict[int, bytes]:
    """Merge the pages that several segments have for one bucket. Returns the pages of the buckets
    of the merged segment among which the terms are distributed."""
    terms: dict[str, list[Postings]] = {}
    for segment, page in pages:
        if page is not None:
            for term, postings in decode_page(page).items():
                terms.setdefault(term, []).append(moved(postings, segment.start - merged.start))
    joined = (
        (term, each[0] if len(each) == 1 else np.concatenate(each)) for term, each in terms.items()
    )
    return _pages(joined, merged.buckets)


def _pages(terms: Iterable[tuple[str, Postings]], buckets: int) -> dict[int, bytes]:
    found: dict[int, dict[str, Postings]] = {}
    for term, postings in terms:
        found.setdefault(bucket_of(term, buckets), {})[term] = postings
    return {bucket: encode_page(each) for bucket, each in found.items()}


def posting_of(message: MessageTerms, position: int) -> Iterator[tuple[str, Postings]]:
    """Yield the postings of one message of a segment."""
    for term, count in message.terms.items():
        yield term, np.array([posting(position, count, message.length)], "<u4")


__all__ = [
    "MERGED",
    "SMALLEST",
    "TOP_LEVEL",
    "StoredMessage",
    "make_pages",
    "merge_pages",
    "merged_segment",
    "next_merge",
    "posting_of",
]
