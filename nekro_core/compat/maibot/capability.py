"""The base of all capabilities: a call that a plugin makes through ``self.ctx``, and its answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin, current_call
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.system.errors import NekroError


class CapabilityError(NekroError):
    """A call cannot be carried out. The plugin gets ``{"success": False, "error": ...}``, which is
    the SDK's form of a failure. The text is for the plugin's author."""


class CapabilityDenied(NekroError, RuntimeError):
    """The plugin's manifest does not list this capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityCall:
    """One call of a capability.

    ``plugin`` makes the call. ``name`` is the capability's name in MaiBot's protocol, and ``args``
    are the arguments, unchecked. The other fields are the parts of the bot that capabilities use.
    """

    plugin: MaiBotPlugin
    name: str
    args: Mapping[str, Any]
    bot: BotView
    hooks: HookRunner
    plugins: LoadedPlugins

    def text(self, *names: str, needed: bool = False) -> str:
        """Return the first of the named arguments that is not empty, as a text. If all are empty,
        return an empty text, or raise `CapabilityError` if ``needed`` is true."""
        for name in names:
            value = self.args.get(name)
            if value is not None and str(value).strip():
                return str(value)
        if needed:
            raise CapabilityError(f"{self.name}: {names[0]} is missing")
        return ""

    def number(self, name: str, default: int, most: int) -> int:
        """Return an argument as a whole number from 1 to ``most``."""
        try:
            value = int(self.args.get(name) or default)
        except (TypeError, ValueError):
            value = default
        return max(1, min(value, most))

    def chat(self, *names: str) -> ChatKey:
        """Return the chat in an argument, by default in ``stream_id``. Raises `CapabilityError`."""
        text = self.text(*(names or ("stream_id",)), needed=True).strip()
        try:
            return ChatKey.parse(text)
        except ChatKeyError as error:
            raise CapabilityError(f"{self.name}: {error}") from None

    def context(self, chat: ChatKey) -> AgentCtx:
        """Return the context in which the plugin acts on a chat.

        While a handler runs, this is the context of the handler, even if ``chat`` is another chat.
        Writing to another chat needs the operator's permission, because the model may have chosen
        that chat. A task that runs after the end of its handler gets a new context for the
        handler's chat and person. Code outside of handlers (a task of ``on_load``, a timer) gets a
        context for ``chat``.
        """
        handler = current_call()
        owner, services = self.plugin.native.key, self.bot.services
        if handler is None:
            return AgentCtx(services=services, chat=chat, owner=owner)
        if handler.over:
            return AgentCtx(
                services=services,
                chat=handler.ctx.chat,
                from_user_id=handler.ctx.from_user_id,
                from_user_name=handler.ctx.from_user_name,
                message_id=handler.ctx.message_id,
                owner=owner,
            )
        return handler.ctx.called_for(owner)

    def writing_context(self, chat: ChatKey) -> AgentCtx:
        """Return the context of `context`, for writing to ``chat``. Raises `CapabilityError` if the
        handler runs for another chat and the operator does not let the plugin write to other
        chats."""
        ctx = self.context(chat)
        if ctx.chat != chat and self.plugin.native.key not in self.bot.services.may_send_elsewhere:
            raise CapabilityError(
                f"{self.name}: {chat} is another chat (NEKRO_PLUGIN__MAY_SEND_ELSEWHERE)"
            )
        return ctx


Answer = dict[str, Any]
Capability = Callable[[CapabilityCall], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class CapabilityEntry:
    """A capability's function, and its state: ``works``, ``partly: ...`` or ``not: why``. A
    ``free`` capability changes only the plugin itself, so the manifest need not list it."""

    answer: Capability
    state: str = "works"
    free: bool = False


def success(**values: Any) -> Answer:
    """Make the answer to a call that succeeded."""
    return {"success": True, **values}
