"""Runs hooks, events and commands for a received message, in the same order as MaiBot."""

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nekro_core.agent.prompt.quoting import quote_lines
from nekro_core.chat import ChatMessage
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.formats.message_text import leading_call
from nekro_core.compat.maibot.formats.messages import event_message_of
from nekro_core.compat.maibot.hooks.commands import MaiBotCommands, find
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin
from nekro_core.llm.model import Part, PromptMessage, TextPart
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal

_BEFORE_HOOK, _BEFORE_EVENT = "chat.receive.before_process", "on_message_pre_process"
_AFTER_HOOK, _MESSAGE_EVENT = "chat.receive.after_process", "on_message"
_MOST_CHANGED = 200
_MOST_QUOTED = 4000
_QUOTED_MESSAGE = re.compile(
    r"^(?P<header>\[message (?P<number>[^\]\n]+)\] from .*\n)(?P<calls>> (?:@you )*).*(?:\n> .*)*",
    re.MULTILINE,
)
"""A message in a prompt. A text that a plugin changed has no call of the bot at its beginning."""


class ChangedMessages:
    """The texts of messages that plugins have changed. The database has the original texts, so the
    changed texts are put into the prompts."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()

    def put(self, stream_id: str, message_id: str, text: str) -> None:
        """Store the changed text of a message. If there are more than 200 texts, the oldest text is
        dropped."""
        self._texts[stream_id, message_id] = text
        while len(self._texts) > _MOST_CHANGED:
            self._texts.popitem(last=False)

    def prompt_lines(self, stream_id: str) -> str:
        """The last 10 changed texts of a chat, as lines for its prompt."""
        changes = list(self._of(stream_id).items())[-10:]
        return "\n".join(f"Message {number} is to be read as: {text}" for number, text in changes)

    def in_prompt(
        self, stream_id: str, messages: Sequence[PromptMessage]
    ) -> tuple[PromptMessage, ...]:
        """Replace the quoted texts of the changed messages of a chat in a prompt."""
        changes = self._of(stream_id)
        if not changes:
            return tuple(messages)
        return tuple(replace(each, parts=_changed_parts(each, changes)) for each in messages)

    def _of(self, stream_id: str) -> dict[str, str]:
        return {
            number: text for (stream, number), text in self._texts.items() if stream == stream_id
        }


def _changed_parts(message: PromptMessage, changes: Mapping[str, str]) -> tuple[Part, ...]:
    if message.role != "user":
        return message.parts
    return tuple(
        TextPart(_with_changes(part.text, changes)) if isinstance(part, TextPart) else part
        for part in message.parts
    )


def _with_changes(text: str, changes: Mapping[str, str]) -> str:
    def changed(found: re.Match[str]) -> str:
        number = found["number"]
        if number not in changes:
            return found.group()
        quoted = quote_lines(changes[number], _MOST_QUOTED).removeprefix("> ")
        return f"{found['header']}{found['calls']}{quoted}"

    return _QUOTED_MESSAGE.sub(changed, text)


@dataclass(slots=True, kw_only=True, eq=False)
class InboundMessages:
    """Passes received messages to the MaiBot plugins.

    The methods are mounted on every plugin. But the handlers of all plugins must run in one common
    order, and a message must run at most one command. So only the methods on the first plugin do
    the work, for all plugins.
    """

    bot: BotView
    plugins: LoadedPlugins
    hooks: HookRunner
    commands: MaiBotCommands
    changed: ChangedMessages = field(default_factory=ChangedMessages)

    def mount(self, plugin: MaiBotPlugin) -> None:
        """Mount the method for received messages and the method for the prompt on a plugin."""

        async def on_message(ctx: AgentCtx, message: ChatMessage) -> MsgSignal | None:
            first = self.plugins.is_first(plugin)
            return await self.receive(ctx, message) if first else None

        async def prompt(ctx: AgentCtx) -> str:
            first = self.plugins.is_first(plugin)
            return self.changed.prompt_lines(ctx.chat_key) if first else ""

        plugin.native.mount_on_user_message()(on_message)
        plugin.native.prompt_inject_method = prompt

    async def receive(self, ctx: AgentCtx, message: ChatMessage) -> MsgSignal | None:
        """Run the hooks, events and commands of all plugins for a message. Returns a signal if the
        message must not wake the bot, or must also be hidden from the model; None otherwise."""
        hooks = self.hooks
        await self.bot.learn_group_name(message.chat_key)
        seen = _SeenMessage(self.bot.message(message), message)
        for hook, event in ((_BEFORE_HOOK, _BEFORE_EVENT), (_AFTER_HOOK, "")):
            if not hooks.any(hook, event):
                continue
            done = await hooks.hook(hook, {"message": seen.shown}, ctx=ctx)
            if done.aborted:
                return MsgSignal.BLOCK_ALL
            seen.change(done.kwargs.get("message"))
            if event and await self._event_ends(event, seen, ctx):
                return MsgSignal.BLOCK_ALL
        signal = None
        if not message.from_history and message.notice is None:
            signal = await self._command(seen, ctx)
        # A message that a command has handled is no event, so that it is not answered twice.
        if signal is None and await self._event_ends(_MESSAGE_EVENT, seen, ctx):
            signal = MsgSignal.BLOCK_ALL
        if seen.changed:
            self.changed.put(ctx.chat_key, message.message_id, seen.text)
        return signal

    async def _event_ends(self, event: str, seen: "_SeenMessage", ctx: AgentCtx) -> bool:
        """Run the handlers of an event. Returns whether a handler has ended it."""
        if not self.hooks.any(event):
            return False
        done = await self.hooks.event(event, event_message_of(seen.shown), ctx=ctx)
        if not done.aborted:
            seen.change(done.kwargs.get("message"))
        return done.aborted

    async def _command(self, seen: "_SeenMessage", ctx: AgentCtx) -> MsgSignal | None:
        match = find(self.plugins, seen.text, ctx.chat_key)
        if match is None:
            return None
        reply = await self.commands.run(match, ctx, seen.text, seen.shown)
        if reply.hides:
            return MsgSignal.BLOCK_ALL
        return MsgSignal.BLOCK_TRIGGER if reply.stops else None


class _SeenMessage:
    """A received message with the changes of plugins. ``text`` is its text without the beginning
    that only calls the bot."""

    def __init__(self, shown: dict[str, Any], message: ChatMessage) -> None:
        self.shown = shown
        self._called = leading_call(message.segments, message.account)
        self.text = self._without_call(shown["processed_plain_text"])
        self._original = self.text

    @property
    def changed(self) -> bool:
        """Whether a plugin has changed the text."""
        return self.text != self._original

    def change(self, changed: Any) -> None:
        """Apply a handler's changes to the message and its text."""
        if not isinstance(changed, Mapping):
            return
        old = self.shown["processed_plain_text"]
        new = changed.get("processed_plain_text")
        if new == old and "plain_text" in changed:
            new = changed["plain_text"]
        merged = {key: changed.get(key, value) for key, value in self.shown.items()}
        if not isinstance(merged.get("message_info"), Mapping) or not isinstance(new, str):
            return
        self.shown = {**merged, "processed_plain_text": new}
        if new != old:
            self.text = self._without_call(new)

    def _without_call(self, text: str) -> str:
        return text.removeprefix(self._called).strip()
