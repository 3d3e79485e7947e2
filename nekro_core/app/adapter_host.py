"""What adapters see of the bot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nekro_core.app.message_io import MessageIO
from nekro_core.chat import ChatKey, ChatMessage, Record, Segments
from nekro_core.delivery.accounts import AccountDirectory
from nekro_core.delivery.host import MediaKeeper, MediaLinker


class AdapterHost:
    """Implements `Host`: the way in, and what of delivery and the store an adapter needs."""

    def __init__(
        self,
        message_io: MessageIO,
        accounts: AccountDirectory,
        *,
        data_dir: Path,
        settings: Mapping[str, Any],
    ) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.media: MediaKeeper = message_io.media
        self.links: MediaLinker = message_io.links
        self.instance_of = accounts.instance_of
        self.online = message_io.outbox.retry_now
        self._store = message_io.store
        self._inbox = message_io.inbox

    async def accept(self, message: ChatMessage) -> None:
        """See `Host.accept` and `Inbox.accept`."""
        await self._inbox.accept(message)

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        """See `Host.recall`."""
        await self._inbox.recall(chat_key, message_id)

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        """See `Host.revise`."""
        await self._inbox.revise(chat_key, message_id, user_id, said)

    async def known_since(self, adapter: str, account: str) -> float | None:
        """See `Host.known_since`."""
        return self._store.accounts.bound(adapter, account)

    async def account_of(self, instance: str) -> str | None:
        """See `Host.account_of`."""
        bound = self._store.accounts.of(instance)
        return bound.account if bound else None

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """See `Host.records`."""
        if after:
            return await self._store.messages.after(chat_key, after, limit)
        return await self._store.messages.newest(chat_key, limit)

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """See `Host.newest_times`."""
        return await self._store.chats.newest_times(instance)
