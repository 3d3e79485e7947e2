"""Makes segments of the search index from messages, and merges them.

`nekro_core.store.search_index` explains segments, positions and pages,
`nekro_core.store.search_pages` postings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nekro_core.memory.search.message import MessageTerms
from nekro_core.store.search_index import SearchSegment
from nekro_core.store.search_pages import MAX_POSITIONS, Postings, encode_small_page, posting
from nekro_core.system.arrays import np

SMALLEST = 128
"""Number of messages of a segment of level 0."""
MERGED = 8
"""Number of segments that are merged into one of the next level."""
TOP_LEVEL = 4
"""Segments of this level, with 524,288 messages, are not merged: the field for the position in a
posting is too small for more messages."""
assert SMALLEST * MERGED**TOP_LEVEL <= MAX_POSITIONS


def make_page(messages: Iterable[MessageTerms]) -> bytes:
    """Return the only page of a segment of level 0 that has these messages."""
    terms: dict[str, list[int]] = {}
    for position, message in enumerate(messages):
        once = posting(position, 1, message.length)
        for term, count in message.terms.items():
            each = once if count == 1 else posting(position, count, message.length)
            if term in terms:
                terms[term].append(each)
            else:
                terms[term] = [each]
    return encode_small_page(terms)


def next_merge(segments: Sequence[SearchSegment]) -> Sequence[SearchSegment]:
    """Return the next `MERGED` adjacent segments of one level, which must be merged; nothing if
    there are fewer."""
    for begin in range(len(segments) - MERGED + 1):
        some = segments[begin : begin + MERGED]
        level = some[0].level
        ends = (each.start + each.count for each in some[:-1])
        adjacent = all(end == after.start for end, after in zip(ends, some[1:], strict=True))
        if level < TOP_LEVEL and adjacent and all(each.level == level for each in some):
            return some
    return ()


def merged_segment(segments: Sequence[SearchSegment]) -> SearchSegment:
    """Return the segment into which these segments are merged. Its id is not set yet."""
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


def posting_of(message: MessageTerms, position: int) -> Iterator[tuple[str, Postings]]:
    """Yield each term of one message with its posting. ``position`` is the position of the message
    in its segment."""
    for term, count in message.terms.items():
        yield term, np.array([posting(position, count, message.length)], "<u4")
