"""Encodes the messages of the chats that are searched, in the background: the sentence encoder
computes a vector for each message.

The encoder takes 160 MB while it runs, and 2 ms of one core for each message. So only the messages
of chats in which somebody has searched are encoded, the newest first. After each request to the
encoder, the task pauses for as long as the request took.
"""

import time
from collections.abc import Callable, Sequence

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.memory.search.indexer import terms_in
from nekro_core.memory.search.meaning import MessageVectors, encoded_text
from nekro_core.memory.search.word_hits import view_of
from nekro_core.store import Store, StoreError
from nekro_core.store.search_blocks import VECTOR_BYTES

_AT_ONCE = 16
"""Number of texts in one request to the encoder. A request takes 30 ms, and a search may have to
wait for its end."""
_AFTER_ERROR_S = 60.0
_NOTHING = bytes(VECTOR_BYTES)


class MessageEncoding:
    """The queue of chats whose messages must be encoded, and the task that encodes them."""

    def __init__(
        self,
        store: Store,
        vectors: MessageVectors,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._clock = clock
        self._chats: dict[ChatKey, None] = {}
        self._searched = anyio.Event()

    def note_search(self, chat_key: ChatKey) -> None:
        """Add a chat that was searched to the queue."""
        self._chats[chat_key] = None
        self._searched.set()

    async def run(self) -> None:
        """Encode until cancelled."""
        while True:
            if not self._chats:
                self._searched = anyio.Event()
                await self._searched.wait()
            chat_key = next(iter(self._chats))
            del self._chats[chat_key]
            try:
                await self.encode_chat(chat_key)
            except StoreError as error:
                logger.warning("{}: messages are not encoded: {}", chat_key, error)
                await anyio.sleep(_AFTER_ERROR_S)

    async def encode_chat(self, chat_key: ChatKey) -> None:
        """Encode all messages of a chat that are not encoded yet. The vectors of the newest
        messages, which are not in a segment of the index yet, are cached but not stored."""
        view = await view_of(self._store, chat_key)
        await self._encode([encoded_text(each.name, each.found.text) for each in view.loose])
        index = self._store.search_index
        while True:
            removals = index.removals
            blocks = await index.unencoded(chat_key, 1)
            if not blocks:
                return
            (block,) = blocks
            rows = await self._store.messages.rows_numbered(block.seqs.tolist())
            texts = {row["seq"]: encoded_text(row["user_name"], terms_in(row).text) for row in rows}
            signs = await self._encode([texts.get(seq, "") for seq in block.seqs.tolist()])
            if signs is None:
                return
            await index.store_vectors(chat_key, block.number, b"".join(signs), removals=removals)

    async def _encode(self, texts: Sequence[str]) -> list[bytes] | None:
        """Return the signs of each text's vector, as bytes; only zeros for an empty text. Return
        None if the encoder cannot be used."""
        found: dict[str, bytes] = {"": _NOTHING}
        new = [each for each in dict.fromkeys(texts) if each]
        for begin in range(0, len(new), _AT_ONCE):
            started = self._clock()
            some = new[begin : begin + _AT_ONCE]
            encoded = await self._vectors.encode("", some)
            if encoded is None:
                return None
            found |= dict(zip(some, encoded[1], strict=True))
            await anyio.sleep(self._clock() - started)
        return [found[each] for each in texts]
