"""What the agent needs of the rest of the bot, handed in by whoever composes it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from nekro_core.agent.prompt.discovery import ToolDiscovery
from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.chat import ChatKey, ChatMessage
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.inbound.journal import ChatJournal
from nekro_core.delivery.inbound.voice_transcriber import VoiceTranscriber
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.llm.model import ChatModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.authoring.services import BoxFiles
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.plugins.host.hooks import PromptInjection
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.policy.settings import TriggerSettings
from nekro_core.sandbox.box import RunLimits
from nekro_core.store import Store
from nekro_core.timers import TimerService
from nekro_core.tools.names import ToolSet


class TurnPlugins(Protocol):
    """What the plugins add to a turn (`nekro_core.plugins.PluginRegistry`)."""

    def tools_for(self, chat_key: ChatKey) -> ToolSet:
        """The tools that all chats of its adapter have."""

    async def tools_in(self, ctx: AgentCtx) -> ToolSet:
        """The tools that code of this chat may call now."""

    def context_for(
        self,
        chat_key: ChatKey,
        *,
        user_id: str = "",
        user_name: str = "",
        message_id: str = "",
        run_id: str = "",
        box: BoxFiles | None = None,
    ) -> AgentCtx:
        """The context of one run."""

    async def prompt_injections(
        self, ctx: AgentCtx, asleep: Collection[str] = ()
    ) -> tuple[PromptInjection, ...]:
        """What plugins add to the prompt, but for those that sleep, by key."""

    async def on_user_message(self, ctx: AgentCtx, message: ChatMessage) -> MsgSignal:
        """What plugins want done with a message."""

    async def on_channel_reset(self, ctx: AgentCtx) -> None:
        """Tell plugins that the chat begins anew."""

    async def on_user_erase(
        self, ctx: AgentCtx, adapter: str, user_id: str
    ) -> tuple[int, list[str]]:
        """Have plugins forget a person: how many things went, and who failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything at once. What of the model and the settings counts in a chat is in ``policies``.
    ``run_limits`` bound each run; ``clock`` is monotonic, ``wall`` counts
    seconds since 1970."""

    store: Store
    inbox: Inbox
    outbox: Outbox
    activity: Broadcast
    model: ChatModel
    plugins: TurnPlugins
    commands: CommandRouter
    boxes: ChatBoxes
    journal: ChatJournal
    catalogue: Catalogue
    pictures: PromptPictures
    settings: AgentSettings
    trigger: TriggerSettings
    policies: PolicyResolver
    run_limits: RunLimits
    clock: Callable[[], float]
    wall: Callable[[], float]
    timers: TimerService | None = None
    discovery: ToolDiscovery = field(default_factory=ToolDiscovery)
    hearing: VoiceTranscriber | None = None
