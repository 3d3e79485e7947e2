"""Runs hooks, events and commands for a received message, in the same order as MaiBot."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loguru import logger

from nekro_core.chat import Author, ChatMessage, Record, Segments
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.formats.message_text import leading_call, message_text
from nekro_core.compat.maibot.formats.messages import event_message_of
from nekro_core.compat.maibot.formats.received_changes import rewritten
from nekro_core.compat.maibot.hooks.commands import MaiBotCommands, find
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal

_BEFORE_HOOK, _BEFORE_EVENT = "chat.receive.before_process", "on_message_pre_process"
_AFTER_HOOK, _MESSAGE_EVENT = "chat.receive.after_process", "on_message"
_TRIES = 3
_LOOKED_THROUGH = 50
"""How many of the newest records are searched for a message without an id."""


@dataclass(slots=True, kw_only=True, eq=False)
class InboundMessages:
    """Passes received messages to the MaiBot plugins.

    The handlers of all plugins must run in one common order, and a message must run at most one
    command. So the methods are mounted on every plugin, but only the methods on the first plugin do
    the work, for all plugins.
    """

    bot: BotView
    plugins: LoadedPlugins
    hooks: HookRunner
    commands: MaiBotCommands

    def mount(self, plugin: MaiBotPlugin) -> None:
        """Mount the method for received messages on a plugin."""

        async def on_message(ctx: AgentCtx, message: ChatMessage) -> MsgSignal | None:
            first = self.plugins.is_first(plugin)
            return await self.receive(ctx, message) if first else None

        plugin.native.mount_on_user_message()(on_message)

    async def receive(self, ctx: AgentCtx, message: ChatMessage) -> MsgSignal | None:
        """Run the hooks, events and commands of all plugins for a message. Returns a signal if the
        message must not wake the bot, or must also be hidden from the model; None otherwise.

        If a handler changes the text of a message that is not hidden, the changed text replaces the
        stored text before this method returns. So no prompt and no search shows the original text.
        """
        await self.bot.learn_group_name(message.chat_key)
        seen = _SeenMessage(self.bot.message(message), message)
        signal = await self._process(ctx, message, seen)
        if seen.changed and signal is not MsgSignal.BLOCK_ALL:
            await self._store(message, seen)
        return signal

    async def _process(
        self, ctx: AgentCtx, message: ChatMessage, seen: "_SeenMessage"
    ) -> MsgSignal | None:
        hooks = self.hooks
        for hook, event in ((_BEFORE_HOOK, _BEFORE_EVENT), (_AFTER_HOOK, "")):
            if not hooks.any(hook, event):
                continue
            done = await hooks.hook(hook, {"message": seen.shown}, ctx=ctx)
            if done.aborted:
                return MsgSignal.BLOCK_ALL
            seen.change(done.kwargs.get("message"))
            # The model of MaiBot never sees a message that the handler of an event has stopped.
            if event and await self._event_ends(event, seen, ctx):
                return MsgSignal.BLOCK_ALL
        signal = None
        if not message.from_history and message.notice is None:
            signal = await self._command(seen, ctx)
        # A message that a command has handled starts no event. So it is not answered twice.
        if signal is None and await self._event_ends(_MESSAGE_EVENT, seen, ctx):
            signal = MsgSignal.BLOCK_ALL
        return signal

    async def _event_ends(self, event: str, seen: "_SeenMessage", ctx: AgentCtx) -> bool:
        """Run the handlers of an event. Return True if a handler has ended the event."""
        if not self.hooks.any(event):
            return False
        done = await self.hooks.event(event, event_message_of(seen.shown), ctx=ctx)
        if not done.aborted:
            seen.change(done.kwargs.get("message"))
        return done.aborted

    async def _store(self, message: ChatMessage, seen: "_SeenMessage") -> None:
        """Store the changed message in place of the original."""
        stored = self.bot.store.messages
        for _ in range(_TRIES):
            record = await self._record_of(message)
            if record is None or record.recalled:
                return
            # A voice of the message may have been transcribed in the meantime.
            same = len(record.segments) == len(message.segments)
            segments = seen.applied_to(record.segments if same else message.segments)
            if segments is None or await stored.reword(record, segments) is not None:
                return
        logger.error("{}: the changes of message {} are lost", message.chat_key, message.message_id)

    async def _record_of(self, message: ChatMessage) -> Record | None:
        stored = self.bot.store.messages
        if message.message_id:
            return await stored.by_message_id(message.chat_key, message.message_id)
        newest = await stored.newest(message.chat_key, _LOOKED_THROUGH)
        own = (each for each in newest if each.author is Author.PERSON)
        return next((each for each in own if each.segments == message.segments), None)

    async def _command(self, seen: "_SeenMessage", ctx: AgentCtx) -> MsgSignal | None:
        match = find(self.plugins, seen.text, ctx.chat_key)
        if match is None:
            return None
        reply = await self.commands.run(match, ctx, seen.text, seen.shown, seen.change)
        if reply.hides:
            return MsgSignal.BLOCK_ALL
        return MsgSignal.BLOCK_TRIGGER if reply.stops else None


class _SeenMessage:
    """A received message with the changes of plugins. ``text`` is its text without the beginning
    that only calls the bot."""

    def __init__(self, shown: dict[str, Any], message: ChatMessage) -> None:
        self.shown = shown
        self._received = shown
        self._called = leading_call(message.segments, message.account)
        self.text = self._without_call(shown["processed_plain_text"])
        self._segments = message.segments

    @property
    def changed(self) -> bool:
        """True if a plugin has changed the content."""
        return self.applied_to(self._segments) is not None

    def applied_to(self, segments: Segments) -> Segments | None:
        """The segments of the message with the plugins' changes; None if there are none."""
        made = rewritten(segments, self._received, self.shown)
        return made if made != segments else None

    def change(self, changed: Any) -> None:
        """Apply a handler's changes to the message and its text."""
        if not isinstance(changed, Mapping):
            return
        old = self.shown["processed_plain_text"]
        new = changed.get("processed_plain_text")
        if new == old and "plain_text" in changed:
            new = changed["plain_text"]
        merged = {key: changed.get(key, value) for key, value in self.shown.items()}
        raw = self.shown["raw_message"]
        if merged["raw_message"] == raw:
            merged["raw_message"] = changed.get("message_segments", raw)
        if not isinstance(merged.get("message_info"), Mapping) or not isinstance(new, str):
            return
        if new == old and merged["raw_message"] != self.shown["raw_message"]:
            made = rewritten(self._segments, self._received, merged)
            new = message_text(made) if made is not None else new
        self.shown = {**merged, "processed_plain_text": new}
        if new != old:
            self.text = self._without_call(new)

    def _without_call(self, text: str) -> str:
        return text.removeprefix(self._called).strip()
