"""The parts of the bot that sessions need. `AgentRuntime` passes them in."""

from dataclasses import dataclass
from typing import Protocol

from nekro_core.agent.turn.services import PromptPlugins, TurnServices
from nekro_core.chat import ChatMessage
from nekro_core.delivery.activity import Broadcast
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy.settings import TriggerSettings


class SessionPlugins(PromptPlugins, Protocol):
    """What plugins do in a chat (`nekro_core.plugins.host.registry.PluginRegistry`)."""

    async def on_user_message(self, ctx: AgentCtx, message: ChatMessage) -> MsgSignal:
        """Ask plugins what to do with a message."""

    async def on_channel_reset(self, ctx: AgentCtx) -> None:
        """Tell plugins that the chat's conversation is reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServices(TurnServices):
    """What a session needs in addition, to receive records and to decide. ``trigger`` has the
    settings for all chats; those of one chat are in its policy."""

    plugins: SessionPlugins
    activity: Broadcast
    trigger: TriggerSettings
