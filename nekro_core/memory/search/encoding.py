"""Has the sentence encoder read the messages of the chats that are searched, in the background.

A chat that nobody searches costs nothing: the encoder takes 160 MB while it runs, and 2 ms of one
core for each message. After the first search in a chat, this task reads the messages of that chat,
newest first. It pauses as long as it works.
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
"""Number of texts that one request encodes: 30 ms, for which a search would have to wait."""
_AFTER_ERROR_S = 60.0
_NOTHING = bytes(VECTOR_BYTES)


class MessageEncoding:
    """The chats whose messages are to be encoded, and the task that has them encoded."""

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
        """Note that a chat was searched."""
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
        """Encode all messages of a chat that are not encoded yet. The vectors of the newest ones,
        which are in no segment, are only cached."""
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
        """Return the signs of the vector of each text, zeros for an empty text; None if the encoder
        cannot be used."""
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
