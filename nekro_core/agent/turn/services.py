"""The parts of the bot that prompts and turns need. `AgentRuntime` passes them in."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from nekro_core.agent.prompt.discovery import ToolDiscovery
from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.agent.turn.notices import NoticeSender
from nekro_core.chat import ChatKey
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.inbound.voice_transcriber import VoiceTranscriber
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import BoxFiles, MessageSender
from nekro_core.plugins.host.hooks import PromptInjection
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.sandbox.box import RunLimits
from nekro_core.store import Store
from nekro_core.tools.names import ToolSet


class PromptPlugins(Protocol):
    """What plugins add to a prompt (`nekro_core.plugins.host.registry.PluginRegistry`)."""

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
        """What plugins add to the prompt. Those whose key is in ``asleep`` add nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptServices:
    """What a prompt is made from. ``policies`` has the model and the settings of each chat.
    ``wall`` counts seconds since 1970. Without ``transcriber`` voices have no transcript."""

    store: Store
    plugins: PromptPlugins
    policies: PolicyResolver
    pictures: PromptPictures
    boxes: ChatBoxes
    settings: AgentSettings
    wall: Callable[[], float]
    discovery: ToolDiscovery = field(default_factory=ToolDiscovery)
    transcriber: VoiceTranscriber | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServices(PromptServices):
    """What a turn needs in addition, to act. ``outbox`` sends, ``inbox`` adds notes to a chat's
    history, ``run_limits`` bound each run, ``clock`` is monotonic (seconds)."""

    inbox: Inbox
    outbox: MessageSender
    notices: NoticeSender
    run_limits: RunLimits
    clock: Callable[[], float]
