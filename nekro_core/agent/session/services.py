"""Defines the services that sessions need. `AgentRuntime` provides them."""

from dataclasses import dataclass
from typing import Protocol

from nekro_core.agent.participation.unasked import QuickJudge
from nekro_core.agent.turn.services import PromptPlugins, TurnServices
from nekro_core.chat import ChatMessage
from nekro_core.delivery.activity import Broadcast
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.hooks import MessageSignal
from nekro_core.policy.settings import TriggerSettings


class SessionPlugins(PromptPlugins, Protocol):
    """The part of the plugin registry that sessions use
    (`nekro_core.plugins.host.registry.PluginRegistry`)."""

    def has_message_hooks(self, ctx: AgentCtx) -> bool:
        """Return whether a plugin of this chat has a message hook."""

    async def on_user_message(self, ctx: AgentCtx, message: ChatMessage) -> MessageSignal:
        """Call the plugins' hooks for a message. Returns what to do with the message, and which
        plugin decided that."""

    async def on_channel_reset(self, ctx: AgentCtx) -> None:
        """Call the plugins' hooks for a reset of the chat's conversation."""

    async def on_user_erase(
        self, ctx: AgentCtx, adapter: str, user_id: str
    ) -> tuple[int, list[str]]:
        """Call the plugins' hooks that erase a person. Returns the number of deleted items, and the
        plugins that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServices(TurnServices):
    """The services that a session needs to receive records and to decide, in addition to those of
    a turn. ``trigger`` has the settings for all chats; the settings of one chat are in the chat's
    policy. Without ``quick_judge`` the bot never speaks unasked."""

    plugins: SessionPlugins
    activity: Broadcast
    trigger: TriggerSettings
    quick_judge: QuickJudge | None = None
