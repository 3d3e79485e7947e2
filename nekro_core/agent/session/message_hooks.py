"""Calls the plugins' hooks for the messages of one chat, and stores what the hooks decided."""

from loguru import logger

from nekro_core.agent.session.services import SessionServices
from nekro_core.chat import ChatKey, Record, Segments
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.host.hooks import MessageSignal
from nekro_core.store import DecisionReason, MessageDecision, StoreError, StoreUnavailable


class MessageHooks:
    """The plugins' hooks for the messages of one chat."""

    def __init__(self, chat_key: ChatKey, services: SessionServices) -> None:
        self._chat_key = chat_key
        self._services = services
        self.newest = 0
        """The sequence number of the newest record that hooks have seen; 0 if there is none."""

    async def ask(self, record: Record) -> tuple[MessageSignal, Record]:
        """Call the hooks for a message. Returns what to do with the message, and the message's
        record. A hook may have changed the text of the record."""
        stored = self._services.store.messages
        changes = stored.changes(self._chat_key)
        plugins, sender = self._services.plugins, record.sender
        ctx = plugins.context_for(
            self._chat_key,
            user_id=sender.user_id,
            user_name=sender.name,
            message_id=record.message_id,
        )
        if plugins.has_message_hooks(ctx):
            self.newest = record.seq
        account = self._services.store.accounts.of(self._chat_key.instance)
        message = record.as_message(account.account if account else "")
        signal = await plugins.on_user_message(ctx, message)
        if stored.changes(self._chat_key) != changes:
            record = await stored.get(record.seq) or record
        if signal.segments is not None and signal.signal is not MsgSignal.BLOCK_ALL:
            record = await self._reword(record, message.segments, signal.segments)
        return signal, record

    async def hide(self, record: Record, plugin: str) -> None:
        """Hide a record from all prompts, also after a restart."""
        await self.note_handled(record, DecisionReason.HIDDEN_BY_PLUGIN, plugin)
        try:
            await self._services.store.messages.hide(record)
        except StoreError as error:
            logger.error(
                "{}: record {} is hidden until the bot ends: {}", self._chat_key, record.seq, error
            )

    async def note_handled(self, record: Record, reason: DecisionReason, plugin: str) -> None:
        """Store that a plugin has handled a message. Otherwise the plugin's hook would be called
        for the message again after a restart, and the hook may carry out a command."""
        decision = MessageDecision(reason=reason, detail=plugin)
        try:
            await self._services.store.messages.mark_answered_elsewhere(record, decision)
        except StoreUnavailable as error:
            logger.error("{}: message {}: {}", self._chat_key, record.seq, error)

    async def _reword(self, record: Record, before: Segments, now: Segments) -> Record:
        """Store the text of a message as hooks have changed it, so that prompts do not show the
        original. If the record was changed in another way while the hooks ran, for example by a
        transcript, that change stays and the hooks' change is lost."""
        changed = None
        try:
            if record.segments == before:
                changed = await self._services.store.messages.reword(record, now)
        except StoreError as error:
            logger.error("{}: record {}: {}", self._chat_key, record.seq, error)
        if changed is None:
            logger.warning("{}: what hooks changed of {} is lost", self._chat_key, record.seq)
        return changed or record
