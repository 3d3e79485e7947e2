"""Compares the meaning of a question with the meaning of messages. The vectors come from the same
sentence encoder that the search for tools uses.

Of each number of a message's vector, only the sign is stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeAlias

import anyio

from nekro_core.system.arrays import NDArray, np
from nekro_core.tools.discovery import EncodedTexts

_TEXT = 400
"""Maximum number of characters of a message that the encoder reads. The encoder needs 2 ms for an
average message."""
_CACHED = 20_000
"""Maximum number of cached vectors of messages: 3 MB. They are needed for messages that are not in
a segment of the index yet."""
_QUERIES = 64
"""Maximum number of cached vectors of questions. It is larger than the number of searches that run
at the same time, because `query` must find the vector that it has just computed."""
_AT_ONCE = 2048
"""Maximum number of messages whose vectors are compared in one step, which takes 2 MB."""

Signs: TypeAlias = "NDArray[np.uint8]"


class TextEncoder(Protocol):
    """Computes vectors of texts (`nekro_core.tools.discovery.SentenceVectors`)."""

    async def encode(self, query: str, texts: Sequence[str]) -> EncodedTexts | None:
        """Compute the vector of a query, and the signs of the vectors of texts. Return None if the
        encoder cannot be used."""


class MessageVectors:
    """Encodes messages and questions, and caches the results."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._queries: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._computing: dict[bytes, anyio.Event] = {}

    def cached(self, text: str) -> bytes | None:
        """Return the signs of a text's vector; None if they are not cached."""
        return self._known.get(_digest(text))

    async def query(self, text: str) -> NDArray[np.float32] | None:
        """Return the vector of a question; None if the encoder cannot be used. The vectors of the
        newest questions are cached, so a search can begin the computation early and get the result
        with a second call, which waits for the end of the first."""
        digest = _digest(text)
        if computing := self._computing.get(digest):
            await computing.wait()
        if digest not in self._queries:
            done = self._computing[digest] = anyio.Event()
            try:
                encoded = await self._encoder.encode(text, ())
            finally:
                self._computing.pop(digest, None)
                done.set()
            if encoded is None:
                return None
            self._queries[digest] = np.array(encoded.query, np.float32)
            while len(self._queries) > _QUERIES:
                self._queries.popitem(last=False)
        return self._queries.get(digest)

    async def encode(
        self, query: str, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[bytes]] | None:
        """Compute the vector of a query, and the signs of the vectors of texts. Return None if the
        encoder cannot be used."""
        new = [each for each in dict.fromkeys(texts) if _digest(each) not in self._known]
        if not new:
            vector = await self.query(query)
            known = [self._known[_digest(each)] for each in texts]
            return None if vector is None else (vector, known)
        encoded = await self._encoder.encode(query, [each[:_TEXT] for each in new])
        if encoded is None:
            return None
        made = dict(zip(new, encoded.signs, strict=True))
        signs = [made.get(each) or self._known[_digest(each)] for each in texts]
        for text, each in made.items():
            self._known[_digest(text)] = each
        while len(self._known) > _CACHED:
            self._known.popitem(last=False)
        return np.array(encoded.query, np.float32), signs


def encoded_text(name: str, text: str) -> str:
    """Return the text that the encoder reads for a message; empty if the message has no words."""
    return f"{name}: {text}" if name and text else text


def cosines_of(query: NDArray[np.float32], signs: Signs) -> NDArray[np.float32]:
    """Compare a query with messages.

    Args:
        query: The vector of the query.
        signs: The signs of the vector of each message.

    Returns:
        The cosine of the query and the signs of each message.
    """
    # For each byte of signs and each of its 256 values, add up the numbers of the query once. Then
    # a message takes 64 additions instead of 512.
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1
    sums = query.reshape(-1, 8) @ bits.T
    first = np.arange(len(sums)) * 256
    products = np.zeros(len(signs), np.float32)
    for at in range(0, len(signs), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        products[part] = sums.ravel()[signs[part] + first].sum(axis=1)
    size = np.sqrt(np.float32(len(query))) * max(float(np.linalg.norm(query)), 1e-9)
    return np.asarray(products / size, np.float32)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
