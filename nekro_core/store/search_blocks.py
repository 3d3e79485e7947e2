"""Encodes the blocks of the search index. A block holds facts about 64 neighbouring messages of a
chat.

It holds for each message: the number in the store, the time, how many terms it has, bits for what
it has (see `nekro_core.memory.search.answers`), and the signs (plus or minus) of the 512 numbers of
its sentence vector. The signs are all zero until the sentence encoder has read the message, and
again when the message is removed from the index. In trials, search results that were ranked by the
signs alone were as good as results that were ranked by the numbers (decision 0039). The signs take
1/32 of the space.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from nekro_core.system.arrays import NDArray, np

BLOCK = 64
"""Number of messages of a block. A search reads the blocks of its best 200 messages. They have at
most 1.2 MB."""
VECTOR_BYTES = 64
"""Number of bytes of a message's vector. It has one bit for each of 512 numbers."""

_FACTS = [("seq", "<i8"), ("time", "<f8"), ("length", "u1"), ("traits", "u1")]
_FACT = struct.Struct("<qdBB")
"""A row of `_FACTS`. Blocks are encoded without numpy; see
`nekro_core.store.search_pages.encode_small_page`."""


@dataclass(frozen=True, slots=True)
class IndexedMessage:
    """What a block holds of one message.

    Attributes:
        seq: Its number in the store.
        time: Its time, in seconds since 1970.
        length: How many terms it has, at most 255.
        traits: Bits for what it has, such as a number (`nekro_core.memory.search.answers`).
    """

    seq: int
    time: float
    length: int
    traits: int


@dataclass(frozen=True, slots=True)
class SearchBlock:
    """Neighbouring messages of a chat.

    Attributes:
        number: The position of the first message in the chat, divided by `BLOCK`.
        seqs: The messages' numbers in the store.
        times: Their times.
        lengths: How many terms each message has.
        traits: Bits for what each message has.
        vectors: The signs of the messages' vectors, a row of `VECTOR_BYTES` for each message.
        encoded: Whether the sentence encoder has read all messages of the block.
    """

    number: int
    seqs: NDArray[np.int64]
    times: NDArray[np.float64]
    lengths: NDArray[np.uint8]
    traits: NDArray[np.uint8]
    vectors: NDArray[np.uint8]
    encoded: bool


def encode_facts(messages: Sequence[IndexedMessage]) -> bytes:
    """Encode the facts about messages, without their vectors."""
    return b"".join(
        _FACT.pack(each.seq, each.time, min(each.length, 255), each.traits) for each in messages
    )


def decode_block(number: int, facts: bytes, vectors: bytes, *, encoded: bool) -> SearchBlock:
    """Decode a block."""
    rows = np.frombuffer(facts, _FACTS)
    return SearchBlock(
        number=number,
        seqs=rows["seq"].astype(np.int64),
        times=rows["time"].astype(np.float64),
        lengths=rows["length"],
        traits=rows["traits"],
        vectors=np.frombuffer(vectors, np.uint8).reshape(len(rows), VECTOR_BYTES),
        encoded=encoded,
    )


@dataclass(frozen=True, slots=True)
class BlockTable:
    """Several blocks of a chat, as one table with a row for each message.

    Attributes:
        numbers: The numbers of the blocks, in order.
        seqs: The messages' numbers in the store.
        times: Their times.
        lengths: How many terms each message has.
        traits: Bits for what each message has.
        vectors: The signs of their vectors.
    """

    numbers: NDArray[np.int64]
    seqs: NDArray[np.int64]
    times: NDArray[np.float64]
    lengths: NDArray[np.uint8]
    traits: NDArray[np.uint8]
    vectors: NDArray[np.uint8]

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of messages by their positions in the chat; -1 for messages that are in
        none of the blocks."""
        if not len(self.numbers):
            return np.full(len(positions), -1, np.int64)
        number, at = np.divmod(positions, BLOCK)
        index = np.minimum(np.searchsorted(self.numbers, number), len(self.numbers) - 1)
        return np.where(self.numbers[index] == number, index * BLOCK + at, -1)


def block_table(
    numbers: Sequence[int], facts: Sequence[bytes], vectors: Sequence[bytes] | None
) -> BlockTable:
    """Decode blocks, which must be in the order of their numbers. All have `BLOCK` messages.
    Without ``vectors``, those of the table are all zero."""
    rows = np.frombuffer(b"".join(facts), _FACTS)
    signs = bytes(VECTOR_BYTES * len(rows)) if vectors is None else b"".join(vectors)
    return BlockTable(
        numbers=np.array(numbers, np.int64),
        seqs=rows["seq"],
        times=rows["time"],
        lengths=rows["length"],
        traits=rows["traits"],
        vectors=np.frombuffer(signs, np.uint8).reshape(len(rows), VECTOR_BYTES),
    )
