"""Encodes the pages of the search index. A page holds the terms of one bucket of a segment
(`nekro_core.store.search_index`), each term with its postings.

A posting says that a message has a term. It is an unsigned number of 32 bits: the position of the
message in its segment (20 bits), how often the message has the term (4 bits, at most 15), and how
many terms the message has (8 bits, at most 255). The postings of a term are in the order of the
messages.

A page consists of the number of terms, the length of the terms' text, the terms with line feeds
between them, the number of postings of each term, and all postings. Numbers are 32-bit
little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from nekro_core.system.arrays import NDArray, np

Postings: TypeAlias = "NDArray[np.uint32]"

MAX_POSITIONS = 1 << 20
"""Maximum number of messages of a segment."""
_POSITION = 12
_COUNT = 8
_HEAD = struct.Struct("<II")
_NUMBER = "<u4"
_LINE_FEED = 10


def posting(position: int, count: int, length: int) -> int:
    """Return the posting of a message with ``length`` terms that has a term ``count`` times."""
    return position << _POSITION | min(count, 15) << _COUNT | min(length, 255)


def positions(postings: Postings) -> NDArray[np.int64]:
    """Return the positions of the messages."""
    return (postings >> _POSITION).astype(np.int64)


def counts(postings: Postings) -> NDArray[np.float32]:
    """Return how often the messages have the term."""
    return (postings >> _COUNT & 15).astype(np.float32)


def has_several(postings: Postings) -> NDArray[np.bool_]:
    """Return whether each of the messages has the term more than once."""
    return np.asarray((postings & 15 << _COUNT) != 1 << _COUNT, np.bool_)


def lengths(postings: Postings) -> NDArray[np.float32]:
    """Return how many terms the messages have."""
    return (postings & 255).astype(np.float32)


def moved(postings: Postings, by: int) -> Postings:
    """Return the postings with ``by`` added to all positions. So the postings of a segment can be
    put into a merged segment, which begins ``by`` messages earlier."""
    return postings + np.uint32(by << _POSITION)


def bucket_of(term: str, buckets: int) -> int:
    """Return the bucket of a term, in a segment with this number of buckets (a power of two)."""
    return zlib.crc32(term.encode()) & (buckets - 1)


def encode_page(terms: Sequence[str], sizes: NDArray[np.int64], postings: Postings) -> bytes:
    """Encode a page.

    Args:
        terms: The terms. None may be empty or contain a line feed.
        sizes: The number of postings of each term.
        postings: The postings of all terms, one term after another.
    """
    return _page(terms, sizes.astype(_NUMBER).tobytes(), postings.astype(_NUMBER).tobytes())


def encode_small_page(postings: Mapping[str, Sequence[int]]) -> bytes:
    """Encode a page that has these postings of each term, without numpy. So a bot whose chats have
    few messages, and that searches none, does without numpy and its 13 MiB."""
    sizes = [len(each) for each in postings.values()]
    numbers = [number for each in postings.values() for number in each]
    return _page(
        list(postings),
        struct.pack(f"<{len(sizes)}I", *sizes),
        struct.pack(f"<{len(numbers)}I", *numbers),
    )


def _page(terms: Sequence[str], sizes: bytes, postings: bytes) -> bytes:
    names = "\n".join(terms).encode()
    return b"".join((_HEAD.pack(len(terms), len(names)), names, sizes, postings))


def merge_pages(pages: Iterable[tuple[int, bytes]], buckets: int) -> dict[int, bytes]:
    """Merge pages of several segments, and distribute the terms among buckets.

    Args:
        pages: The pages, in the order of the segments, each with the position in the merged segment
            at which its own segment begins. This number is added to the positions of the page.
        buckets: The number of buckets of the merged segment.

    Returns:
        The pages of the merged segment, by bucket.
    """
    numbers: dict[str, int] = {}
    owners: list[NDArray[np.int64]] = []
    parts: list[Postings] = []
    for by, page in pages:
        names, each_size, each = _parts(page)
        if not len(each_size):
            continue
        own = [numbers.setdefault(name, len(numbers)) for name in names.decode().split("\n")]
        owners.append(np.repeat(np.array(own, np.int64), each_size))
        parts.append(moved(each, by))
    if not numbers:
        return {}
    terms = list(numbers)
    bucket = np.array([bucket_of(term, buckets) for term in terms], np.int64)
    by_bucket = np.argsort(bucket, kind="stable")
    place = np.empty(len(terms), np.int64)
    place[by_bucket] = np.arange(len(terms))
    owner = place[np.concatenate(owners)]
    postings = np.concatenate(parts)[np.argsort(owner, kind="stable")]
    sizes = np.bincount(owner, minlength=len(terms)).astype(np.int64)
    ends = np.concatenate(([0], np.cumsum(sizes)))
    found: dict[int, bytes] = {}
    edges = np.searchsorted(bucket[by_bucket], np.arange(buckets + 1))
    for number in range(buckets):
        begin, end = int(edges[number]), int(edges[number + 1])
        if begin < end:
            found[number] = encode_page(
                [terms[index] for index in by_bucket[begin:end]],
                sizes[begin:end],
                postings[ends[begin] : ends[end]],
            )
    return found


def decode_page(page: bytes) -> dict[str, Postings]:
    """Return all terms of a page with their postings."""
    names, sizes, postings = _parts(page)
    if not len(sizes):
        return {}
    ends = np.cumsum(sizes)[:-1]
    return dict(zip(names.decode().split("\n"), np.split(postings, ends), strict=True))


def postings_of(page: bytes, terms: Iterable[str]) -> dict[str, Postings]:
    """Return the postings of these terms that a page has, without decoding the other terms."""
    terms_there, length = _HEAD.unpack_from(page)
    begin, end = _HEAD.size, _HEAD.size + length
    found: dict[str, Postings] = {}
    for term in terms:
        index = _index_of(term.encode(), page, begin, end)
        if index >= 0:
            sizes = np.frombuffer(page, _NUMBER, index + 1, end)
            first = int(sizes[:-1].sum())
            at = end + 4 * (terms_there + first)
            found[term] = np.frombuffer(page, _NUMBER, int(sizes[-1]), at)
    return found


def _index_of(term: bytes, page: bytes, begin: int, end: int) -> int:
    """Return the index of a term among the terms of a page; -1 if the page does not have the term.
    The text of the terms is from ``begin`` to ``end`` in the page. It is not copied, because most
    pages that a search reads do not have the term."""
    after = begin + len(term)
    if page.startswith(term, begin, end) and (after == end or page[after] == _LINE_FEED):
        return 0
    at = page.find(b"\n" + term + b"\n", begin, end)
    if at < 0 and page.endswith(b"\n" + term, begin, end):
        at = end - len(term) - 1
    return page.count(b"\n", begin, at) + 1 if at >= 0 else -1


def without(page: bytes, dead: NDArray[np.bool_]) -> bytes | None:
    """Return a page without the postings of removed messages; None if the page has no posting of a
    removed message.

    Args:
        page: The page.
        dead: For each position of the segment, whether the message is removed.
    """
    _, _, postings = _parts(page)
    if not len(postings):
        return None
    gone = dead[postings >> _POSITION]
    if not gone.any():
        return None
    terms = decode_page(page)
    return _encoded({term: each[~dead[each >> _POSITION]] for term, each in terms.items()})


def with_added(page: bytes, added: Mapping[str, Postings]) -> bytes:
    """Return a page with the postings of ``added`` in addition to its own. ``page`` may be
    empty."""
    terms = decode_page(page) if page else {}
    for term, postings in added.items():
        terms[term] = np.sort(np.concatenate((terms.get(term, _none()), postings)))
    return _encoded(terms)


def _encoded(terms: Mapping[str, Postings]) -> bytes:
    """Encode a page. Terms without postings are left out."""
    kept = {term: postings for term, postings in terms.items() if len(postings)}
    sizes = np.array([len(each) for each in kept.values()], np.int64)
    return encode_page(list(kept), sizes, np.concatenate([_none(), *kept.values()]))


def _parts(page: bytes) -> tuple[bytes, Postings, Postings]:
    terms, length = _HEAD.unpack_from(page)
    begin = _HEAD.size + length
    sizes = np.frombuffer(page, _NUMBER, terms, begin)
    return page[_HEAD.size : begin], sizes, np.frombuffer(page, _NUMBER, -1, begin + 4 * terms)


def _none() -> Postings:
    return np.zeros(0, _NUMBER)
