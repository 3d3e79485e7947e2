"""Runs hooks, events and commands for a received message, in the same order as MaiBot."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nekro_core.chat import ChatMessage, Mention, Reply, plain_text
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.formats.messages import event_message_of
from nekro_core.compat.maibot.hooks.commands import MaiBotCommands, find
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal

_BEFORE = ("chat.receive.before_process", "on_message_pre_process")
_AFTER = ("chat.receive.after_process", "on_message")
_MOST_CHANGED = 200


class ChangedMessages:
    """The new texts of messages whose text plugins have changed. The database still has the
    original texts, and the history in the prompt is made from them, so the prompt also lists the
    changed texts."""

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
        lines = [
            f"Message {number} is to be read as: {text}"
            for (stream, number), text in self._texts.items()
            if stream == stream_id
        ]
        return "\n".join(lines[-10:])


@dataclass(slots=True, kw_only=True, eq=False)
class InboundMessages:
    """Passes received messages to the MaiBot plugins.

    The handlers of all plugins must run in one common order, and a message must run at most one
    command. So the methods are mounted on every plugin, but only those on the first plugin do the
    work, for all plugins.
    """

    bot: BotView
    plugins: LoadedPlugins
    hooks: HookRunner
    commands: MaiBotCommands
    _changed: ChangedMessages = field(default_factory=ChangedMessages)

    def mount(self, plugin: MaiBotPlugin) -> None:
        """Mount the method for received messages and the method for the prompt on a plugin."""

        async def on_message(ctx: AgentCtx, message: ChatMessage) -> MsgSignal | None:
            first = self.plugins.is_first(plugin)
            return await self.receive(ctx, message) if first else None

        async def prompt(ctx: AgentCtx) -> str:
            first = self.plugins.is_first(plugin)
            return self._changed.prompt_lines(ctx.chat_key) if first else ""

        plugin.native.mount_on_user_message()(on_message)
        plugin.native.prompt_inject_method = prompt

    async def receive(self, ctx: AgentCtx, message: ChatMessage) -> MsgSignal | None:
        """Run the hooks, events and commands of all plugins for a message. Returns a signal if the
        message must not wake the bot, or must also be hidden from the model; None otherwise."""
        hooks = self.hooks
        shown = self.bot.message(message)
        words = plain_text(
            each for each in message.segments if not isinstance(each, Mention | Reply)
        )
        text = words.strip()
        for hook, event in (_BEFORE, _AFTER):
            if not hooks.any(hook, event):
                continue
            before = await hooks.hook(hook, {"message": shown}, ctx=ctx)
            if before.aborted:
                return MsgSignal.BLOCK_ALL
            shown, text = _merged(shown, text, before.kwargs.get("message"))
            seen = await hooks.event(event, event_message_of(shown), ctx=ctx)
            if seen.aborted:
                return MsgSignal.BLOCK_TRIGGER
            shown, text = _merged(shown, text, seen.kwargs.get("message"))
        if text != words.strip():
            self._changed.put(ctx.chat_key, message.message_id, text)
        if message.from_history or message.notice is not None:
            return None
        match = find(self.plugins, text, ctx.chat_key)
        if match is None:
            return None
        reply = await self.commands.run(match, ctx, text, shown)
        if reply.hides:
            return MsgSignal.BLOCK_ALL
        return MsgSignal.BLOCK_TRIGGER if reply.stops else None


def _merged(shown: dict[str, Any], text: str, changed: Any) -> tuple[dict[str, Any], str]:
    """Apply a handler's changes to the message and its text."""
    if not isinstance(changed, Mapping):
        return shown, text
    old = shown["processed_plain_text"]
    new = changed.get("processed_plain_text")
    if new == old and "plain_text" in changed:
        new = changed["plain_text"]
    merged = {key: changed.get(key, value) for key, value in shown.items()}
    if not isinstance(merged.get("message_info"), Mapping) or not isinstance(new, str):
        return shown, text
    merged["processed_plain_text"] = new
    return merged, text if new == old else new.strip()
