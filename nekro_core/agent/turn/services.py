"""Defines the services that prompts and turns need. `AgentRuntime` provides them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from nekro_core.agent.prompt.captions import PictureCaptions
from nekro_core.agent.prompt.chat_place import SandboxFacts
from nekro_core.agent.prompt.discovery import ToolDiscovery
from nekro_core.agent.prompt.memory_sections import MemoryReader, NoMemory
from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.agent.prompt.window import HistoryWindows
from nekro_core.agent.prompt.written_window import WrittenWindows
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.shown.recording import PromptDescriber
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.agent.turn.file_looks import FileLooks
from nekro_core.agent.turn.notices import NoticeSender
from nekro_core.agent.turn.run_calls import ToolCaller
from nekro_core.chat import ChatKey
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.inbound.voice_transcriber import VoiceTranscriber
from nekro_core.delivery.outbound.chat_signs import ChatSigns
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import BoxFiles, MessageEditor, MessageSender
from nekro_core.plugins.host.hooks import PromptInjection
from nekro_core.plugins.host.kinds import BoxExtras
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.sandbox.box import RunLimits
from nekro_core.store import Store
from nekro_core.system.telemetry.telemetry import Telemetry
from nekro_core.tools.names import ToolSet


class PromptPlugins(Protocol):
    """The part of the plugin registry that prompts use
    (`nekro_core.plugins.host.registry.PluginRegistry`)."""

    def tools_for(self, chat_key: ChatKey) -> ToolSet:
        """Return the tools of all chats of this chat's adapter."""

    async def tools_in(self, ctx: AgentCtx) -> ToolSet:
        """Return the tools that code of this chat may call. Plugins may decide anew for each
        context which tools they offer."""

    def box_extras(self, ctx: AgentCtx) -> BoxExtras:
        """Return the variables and the links to files that this chat's box gets in addition to the
        tools."""

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
        """Return the context of one run."""

    async def prompt_injections(
        self, ctx: AgentCtx, asleep: Collection[str] = ()
    ) -> tuple[PromptInjection, ...]:
        """Return the plugins' additions to the prompt. Plugins whose key is in ``asleep`` are
        skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptServices:
    """The services that a prompt needs. ``policies`` has the model and the settings of each chat.
    ``wall`` returns seconds since 1970. Without ``transcriber`` voice messages have no transcript.
    ``captions`` describes pictures for models that do not see pictures. ``looks`` describes the
    content of posted files. ``capabilities`` returns what messages to a chat can carry; None if
    that is not known. ``sandbox`` returns the present facts about boxes. ``memory`` gives the
    sections that a prompt shows before the history. ``windows`` remembers where the history begins
    in each chat's prompt, and ``written`` the lines of that history. ``describer`` writes from what
    a request was made."""

    store: Store
    plugins: PromptPlugins
    policies: PolicyResolver
    pictures: PromptPictures
    boxes: ChatBoxes
    settings: AgentSettings
    wall: Callable[[], float]
    discovery: ToolDiscovery = field(default_factory=ToolDiscovery)
    describer: PromptDescriber = field(default_factory=PromptDescriber)
    transcriber: VoiceTranscriber | None = None
    captions: PictureCaptions | None = None
    looks: FileLooks | None = None
    capabilities: Callable[[ChatKey], Capabilities | None] = lambda _: None
    sandbox: Callable[[], SandboxFacts] = SandboxFacts
    memory: MemoryReader = field(default_factory=NoMemory)
    windows: HistoryWindows = field(default_factory=HistoryWindows)
    written: WrittenWindows = field(default_factory=WrittenWindows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServices(PromptServices):
    """The services that a turn needs in addition to those of a prompt. ``outbox`` sends messages,
    ``inbox`` adds notes to a chat's history, ``run_limits`` limit each run, ``clock`` is
    monotonic (seconds), ``editor`` edits sent messages, ``signs`` shows that the bot is typing, and
    ``carry_out`` runs the tools. ``telemetry`` records what turns do.
    """

    inbox: Inbox
    outbox: MessageSender
    notices: NoticeSender
    run_limits: RunLimits
    clock: Callable[[], float]
    editor: MessageEditor | None = None
    signs: ChatSigns | None = None
    carry_out: ToolCaller = call_tool
    telemetry: Telemetry = field(default_factory=Telemetry)
