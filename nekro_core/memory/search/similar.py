"""Finds the messages of a chat whose meaning is most similar to that of a question."""

from __future__ import annotations

from nekro_core.memory.search.meaning import MessageVectors, Signs, encoded_text
from nekro_core.memory.search.word_hits import ChatView, Positions
from nekro_core.store import Store
from nekro_core.store.search_blocks import BLOCK, VECTOR_BYTES
from nekro_core.system.arrays import NDArray, np


async def similar_messages(
    store: Store,
    view: ChatView,
    vectors: MessageVectors,
    query: NDArray[np.float32],
    allowed: NDArray[np.bool_] | None,
    number: int,
) -> Positions:
    """Return the positions of the most similar messages, most similar first.

    All vectors of the chat are read: in a chat of 20,000 messages, 1.3 MB.

    Args:
        store: The store.
        view: The chat.
        vectors: The cached vectors of the newest messages.
        query: The vector of the question.
        allowed: For each position, whether the message fits the filters of the search. Only such
            messages are returned. None if all messages fit.
        number: Maximum number of positions.
    """
    signs = await _signs_of(store, view, vectors)
    differing = differing_signs(query, signs)
    known = signs.any(axis=1)
    if allowed is not None:
        known &= allowed
    places = np.flatnonzero(known)
    if len(places) > number:
        places = places[np.argpartition(differing[places], number)[:number]]
    return places[np.argsort(differing[places], kind="stable")]


def differing_signs(query: NDArray[np.float32], signs: Signs) -> NDArray[np.int64]:
    """Return for each message how many of its signs differ from those of the query: the fewer, the
    more similar. This takes less time than `meaning.cosines_of`."""
    wanted = np.packbits(query > 0).view(np.uint64)
    words = np.ascontiguousarray(signs).view(np.uint64)
    differing = np.zeros(len(words), np.uint16)
    for place, each in enumerate(wanted):
        differing += np.bitwise_count(words[:, place] ^ each)
    return differing.astype(np.int64)


async def _signs_of(store: Store, view: ChatView, vectors: MessageVectors) -> Signs:
    """Return the signs of the vectors of all messages of a chat. A message whose vector is not
    known gets only zeros."""
    signs = np.zeros((view.total, VECTOR_BYTES), np.uint8)
    for number, some in await store.search_index.vectors(view.chat_key):
        begin = number * BLOCK
        size = min(len(some), view.indexed - begin)
        if size > 0:
            signs[begin : begin + size] = some[:size]
    signs[view.removed] = 0
    for position, message in enumerate(view.loose, view.indexed):
        if cached := vectors.cached(encoded_text(message.name, message.found.text)):
            signs[position] = np.frombuffer(cached, np.uint8)
    return signs
