"""The `Host` of one process: what adapters see of the rooms here."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from nekro_core.chat import ChatKey, ChatMessage, Record, RunRecord, Segments
from nekro_core.delivery.accounts import AccountDirectory
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.host import (
    Activity,
    MediaKeeper,
    MediaLinker,
    OutboxActions,
    PluginsShown,
    ToolService,
    TurnLog,
)
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media.store import MediaStore
from nekro_core.store import Store
from nekro_core.system.asgi import WebApplication


class AdapterHost:
    """Implements `Host` on a store, an inbox and the rest of delivery.

    ``stop`` ends a chat's running turn and says whether one ran: the agent's word, which this room
    cannot know by itself. ``busy`` likewise says whether one runs. ``online`` sends what waited.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        settings: Mapping[str, Any],
        store: Store,
        inbox: Inbox,
        activity: Broadcast,
        media: MediaStore,
        stop: Callable[[ChatKey], Awaitable[bool]],
        busy: Callable[[ChatKey], bool],
        online: Callable[[], None],
        desk: ToolService,
        outbox: OutboxActions,
        pages: WebApplication,
        webhooks: WebApplication,
        links: MediaLinks,
        accounts: AccountDirectory,
        plugins: Callable[[], PluginsShown],
    ) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.media: MediaKeeper = media
        self._uploads = media
        self._store = store
        self._inbox = inbox
        self._activity = activity
        self._stop = stop
        self._busy = busy
        self._online = online
        self.desk = desk
        self.outbox = outbox
        self.turns: TurnLog = store.turn_log
        self.pages = pages
        self.webhooks = webhooks
        self.links: MediaLinker = links
        self.linked_media: WebApplication = links
        self._accounts = accounts
        self._plugins = plugins

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

    async def instance_of(self, adapter: str, account: str) -> str:
        """See `Host.instance_of`."""
        return await self._accounts.instance_of(adapter, account)

    async def known_since(self, adapter: str, account: str) -> float | None:
        """See `Host.known_since`."""
        return self._store.accounts.bound(adapter, account)

    async def account_of(self, instance: str) -> str | None:
        """See `Host.account_of`."""
        bound = self._store.accounts.of(instance)
        return bound.account if bound else None

    def online(self) -> None:
        """See `Host.online`."""
        self._online()

    async def stop(self, chat_key: ChatKey) -> bool:
        """See `Host.stop`."""
        return await self._stop(chat_key)

    def plugins(self) -> PluginsShown:
        """See `Host.plugins`."""
        return self._plugins()

    def working(self, chat_key: ChatKey) -> bool:
        """See `Host.working`."""
        return self._busy(chat_key)

    def watch(
        self, chat_key: ChatKey | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Activity]]:
        """See `Host.watch`."""
        return self._activity.watch(chat_key)

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """See `Host.records`."""
        if after:
            return await self._store.messages.after(chat_key, after, limit)
        return await self._store.messages.newest(chat_key, limit)

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """See `Host.newest_times`."""
        return await self._store.chats.newest_times(instance)

    async def chats(self, instance: str) -> list[ChatKey]:
        """See `Host.chats`."""
        return await self._store.chats.of_instance(instance)

    async def runs(self, run_id: str) -> list[RunRecord]:
        """See `Host.runs`."""
        return await self._store.runs.beside(run_id)

    async def read_upload(self, chat_key: ChatKey, path: str) -> bytes | None:
        """See `Host.read_upload`."""
        return await self._uploads.read(chat_key, path)
