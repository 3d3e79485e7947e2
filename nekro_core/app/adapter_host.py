"""Implements `Host`, the adapters' interface to the bot, and decides which messages are stored."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nekro_core.agent.erasure.erasure import PersonErasure
from nekro_core.app.message_io import MessageIO
from nekro_core.chat import Author, ChatKey, ChatMessage, Record, Segments
from nekro_core.delivery.account_settings import AccountSettingsFiles, AccountSettingsStore
from nekro_core.delivery.accounts import AccountDirectory
from nekro_core.delivery.clean import clean_text
from nekro_core.delivery.media_contract import MediaKeeper, MediaLinker
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.policy import ChatState
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.system.documents import DocumentFolder


class Admission:
    """Decides which arriving messages are stored."""

    def __init__(
        self, policies: PolicyResolver, commands: CommandRouter, erasure: PersonErasure
    ) -> None:
        self._policies = policies
        self._commands = commands
        self._erasure = erasure

    def admits(self, record: Record) -> bool:
        """Return True if a message is stored. In a chat that is switched off, only commands are
        stored. A message from a platform's history is refused if its author was erased after
        writing it."""
        if record.from_history:
            person = self._erasure.person(record.chat_key, record.sender.user_id)
            if self._erasure.marks.was_erased(person.adapter, person.user_id, record.time):
                return False
        if self._policies.of(record.chat_key).state is not ChatState.OFF:
            return True
        return self._commands.is_command(record)

    async def discard_media(self, record: Record) -> None:
        """Delete the files of a message that is not stored."""
        await self._erasure.forget_files(record)


class AdapterHost:
    """Implements `Host`: accepts messages, and gives adapters media, links and stored data."""

    def __init__(
        self,
        message_io: MessageIO,
        accounts: AccountDirectory,
        *,
        data_dir: Path,
        settings: Mapping[str, Any],
        documents: DocumentFolder | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.media: MediaKeeper = message_io.media
        self.links: MediaLinker = message_io.links
        self.account_files = AccountSettingsFiles(data_dir, documents)
        self.account_settings: AccountSettingsStore = self.account_files
        self.account_used: Callable[[str, str, str], None] = lambda _adapter, _account, _place: None
        """Called with the adapter, the account and the instance whenever an adapter uses an
        account."""
        self._accounts = accounts
        self.receive_request = message_io.requests.receive
        self.online = message_io.outbox.retry_now
        self.admission: Admission | None = None
        """Decides which messages are stored; None until the policies have been read. Until then,
        all messages are stored. At that time, messages come only from plugins that are being
        loaded."""
        self._store = message_io.store
        self._inbox = message_io.inbox
        self._metrics = message_io.telemetry.metrics

    async def accept(self, message: ChatMessage) -> None:
        """Give a message its sequence number, then store it, or drop it if `admission` refuses it.
        See `Host.accept`."""
        stamped = self._inbox.stamp(message)
        if self.admission is not None and not self.admission.admits(stamped.record):
            await self.admission.discard_media(stamped.record)
            return
        record = await self._inbox.accept(stamped)
        if record is not None and record.author is not Author.BOT:
            adapter = self._store.accounts.adapter_of(record.chat_key.instance)
            self._metrics.messages.add(adapter, "in")

    async def instance_of(self, adapter: str, account: str) -> str:
        """See `Host.instance_of`."""
        instance = await self._accounts.instance_of(adapter, account)
        self.account_used(adapter, account, instance)
        return instance

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

    async def name_chat(self, chat_key: ChatKey, name: str) -> None:
        """See `Host.name_chat`."""
        self._store.chats.rename(chat_key, clean_text(name)[:255])

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """See `Host.newest_times`."""
        return await self._store.chats.newest_times(instance)
