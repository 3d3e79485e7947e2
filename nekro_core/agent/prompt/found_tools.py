"""What each chat's model found with `tool_search`: a bounded list that survives a restart."""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.services import PluginDataStore
from nekro_core.store import StoreError
from nekro_core.tools.discovery import SEARCH_OWNER

Key = tuple[str, str]
"""A tool by its owner and name; a sleeping plugin by its key and an empty name."""
_CHATS = 1000
"""Chats that are held in memory; over it the one silent longest goes. Its row stays."""
_ROW = "found"
_MAX_ROW = 64 * 1024


class FoundTools:
    """``most`` for each chat, found longest ago first. Without a ``keeper`` a restart forgets."""

    def __init__(self, most: int, keeper: PluginDataStore | None = None) -> None:
        self._most = most
        self._keeper = keeper
        self._chats: OrderedDict[ChatKey, dict[Key, None]] = OrderedDict()

    def of(self, chat_key: ChatKey) -> Iterable[Key]:
        """What is known of a chat: for one of before a restart after `recall`."""
        return self._chats.get(chat_key, {})

    async def recall(self, chat_key: ChatKey) -> None:
        """Read what the chat found before this bot was started, once. Never raises."""
        if self._keeper is None or chat_key in self._chats:
            return
        try:
            row = await self._keeper.get(SEARCH_OWNER, chat_key=str(chat_key), store_key=_ROW)
        except StoreError as error:
            logger.warning("{}: what it has found is not known: {}", chat_key, error)
            return
        self._hold(chat_key).update(dict.fromkeys(_read(row)[-self._most :]))

    async def add(self, chat_key: ChatKey, keys: Iterable[Key]) -> None:
        """These were found now, the last one last. Never raises."""
        await self.recall(chat_key)
        kept = self._hold(chat_key)
        for key in keys:
            kept.pop(key, None)
            kept[key] = None
        while len(kept) > self._most:
            del kept[next(iter(kept))]
        if self._keeper is None:
            return
        row = msgspec.json.encode(list(kept)).decode()
        try:
            await self._keeper.set(SEARCH_OWNER, row, chat_key=str(chat_key), store_key=_ROW)
        except StoreError as error:
            logger.warning("{}: what it has found is not kept: {}", chat_key, error)

    async def forget(self, chat_key: ChatKey) -> None:
        """The chat begins anew. Raises `StoreError`."""
        self._chats.pop(chat_key, None)
        if self._keeper is not None:
            await self._keeper.delete(SEARCH_OWNER, chat_key=str(chat_key), store_key=_ROW)

    def _hold(self, chat_key: ChatKey) -> dict[Key, None]:
        kept = self._chats.setdefault(chat_key, {})
        self._chats.move_to_end(chat_key)
        while len(self._chats) > _CHATS:
            self._chats.popitem(last=False)
        return kept


def _read(row: str | None) -> list[Key]:
    """A row that is none counts as none: the model searches again."""
    try:
        return msgspec.json.decode((row or "[]")[:_MAX_ROW], type=list[Key])
    except msgspec.MsgspecError:
        return []
