"""Reads data of some messages, and of their neighbours in the chat, from the search index: numbers,
times, lengths and vectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nekro_core.memory.search.meaning import MessageVectors, Signs, encoded_text
from nekro_core.memory.search.ranking import unique
from nekro_core.memory.search.word_hits import ChatView, Positions
from nekro_core.store import Store
from nekro_core.store.search_blocks import BLOCK, VECTOR_BYTES
from nekro_core.system.arrays import NDArray, np

BEFORE = 10
AFTER = 6
"""To rank a message, the data of this many messages before it and after it are read."""
PAUSE_S = 6 * 3600.0
"""If two messages are at least this many seconds apart, they belong to different conversations."""
_OTHERS = 300
"""The mean similarity of a question and the messages of a chat is estimated from about this many
messages."""
_NO_SIGNS = bytes(VECTOR_BYTES)


@dataclass(slots=True)
class Neighbourhood:
    """Some messages of a chat, and the messages around each of them. All arrays have the same
    order.

    Attributes:
        positions: The positions of the messages in the chat, ascending.
        seqs: Their sequence numbers in the store; 0 at a position without a message.
        times: Their times, in seconds since 1970.
        lengths: How many terms each message has.
        traits: Bits that say what each message contains, such as a digit (`answers.traits_of`).
        signs: The signs of their vectors; only zeros for a vector that is not known.
        others: The signs of the vectors of some hundred messages, evenly chosen from the blocks of
            the index that were read.
    """

    positions: Positions
    seqs: NDArray[np.int64]
    times: NDArray[np.float64]
    lengths: NDArray[np.uint8]
    traits: NDArray[np.uint8]
    signs: Signs
    others: Signs

    def index_of(self, places: Positions) -> NDArray[np.int64]:
        """Return the indices of these positions in the arrays."""
        return np.searchsorted(self.positions, places).astype(np.int64)

    def around(self, places: Positions) -> NDArray[np.int64]:
        """Return a row for each distance, from `BEFORE` messages before to `AFTER` messages after:
        the indices of the messages at this distance from these positions. If there is no message,
        or if it belongs to another conversation, its index is the length of the arrays."""
        distances = np.arange(-BEFORE, AFTER + 1)[:, None]
        wanted, other = places + distances, self.index_of(places) + distances
        # ``positions`` has all neighbours of the messages. So neighbours in the chat are also
        # neighbours in the array, except at the beginning and the end of the chat.
        other = np.clip(other, 0, len(self.positions) - 1)
        same = (
            (self.positions[other] == wanted)
            & (self.seqs[other] > 0)
            & (np.abs(self.times[other] - self.times[other[BEFORE]]) < PAUSE_S)
        )
        return np.where(same, other, len(self.positions))


async def neighbourhood_of(
    store: Store, view: ChatView, places: Positions, vectors: MessageVectors | None
) -> Neighbourhood:
    """Read the data of the messages at these positions and of their neighbours. If ``vectors`` is
    None, no vectors are read."""
    distances = np.arange(-BEFORE, AFTER + 1)
    wanted = unique((places[:, None] + distances).reshape(-1))
    wanted = wanted[(wanted >= 0) & (wanted < view.total)]
    found = Neighbourhood(
        positions=wanted,
        seqs=np.zeros(len(wanted), np.int64),
        times=np.zeros(len(wanted), np.float64),
        lengths=np.zeros(len(wanted), np.uint8),
        traits=np.zeros(len(wanted), np.uint8),
        signs=np.zeros((len(wanted), VECTOR_BYTES), np.uint8),
        others=np.zeros((0, VECTOR_BYTES), np.uint8),
    )
    inside = wanted[wanted < view.indexed]
    numbers = unique(inside // BLOCK).tolist()
    table = await store.search_index.block_table(
        view.chat_key, numbers, vectors=vectors is not None
    )
    rows = table.rows(inside)
    there = rows >= 0
    at, rows = np.flatnonzero(there), rows[there]
    found.seqs[at] = table.seqs[rows]
    found.times[at] = table.times[rows]
    found.lengths[at] = table.lengths[rows]
    found.traits[at] = table.traits[rows]
    if vectors is not None:
        found.signs[at] = table.vectors[rows]
        found.others = table.vectors[:: max(len(table.vectors) // _OTHERS, 1)]
    loose = view.loose
    for index in range(len(inside), len(wanted)):
        message = loose[int(wanted[index]) - view.indexed]
        found.seqs[index] = message.seq
        found.times[index] = message.time
        found.lengths[index] = min(message.found.length, 255)
        found.traits[index] = message.found.traits
        if vectors is not None:
            text = encoded_text(message.name, message.found.text)
            signs = vectors.cached(text) or _NO_SIGNS
            found.signs[index] = np.frombuffer(signs, np.uint8)
    return found


def put_signs(found: Neighbourhood, indices: Iterable[int], signs: Iterable[bytes]) -> None:
    """Put newly computed signs into ``found``."""
    for index, each in zip(indices, signs, strict=True):
        found.signs[index] = np.frombuffer(each, np.uint8)
