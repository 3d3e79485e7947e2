"""Collects the contributions of the enabled plugins to a turn: tools, prompt texts, and signals
about messages."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from nekro_core.chat import ChatKey, ChatMessage
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.services import BoxFiles, Services
from nekro_core.plugins.host.entry import PluginEntry
from nekro_core.plugins.host.hooks import (
    HookedJournal,
    MessageSignal,
    PromptInjection,
    message_signal,
    notify_erasure,
    notify_reset,
    prompt_injections,
    system_message_signal,
)
from nekro_core.plugins.host.kinds import (
    NO_BOX_EXTRAS,
    NO_LEGACY_SUPPORT,
    BoxExtras,
    LegacySupport,
)
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.host.toolsets import ToolSetCache, has_lenient
from nekro_core.tools.names import ToolSet
from nekro_core.tools.tool import Tool


class ActivePlugins:
    """The agent's access to the plugins. `nekro_core.plugins.host.registry.PluginRegistry`, a
    subclass, loads the plugins. An error of a plugin is logged and never raised here."""

    def __init__(
        self,
        services: Services,
        settings: PluginSettings,
        legacy: LegacySupport = NO_LEGACY_SUPPORT,
    ) -> None:
        asking = HookedJournal(services.journal, self._system_signal)
        self._services = replace(services, journal=asking)
        self._settings = settings
        self._legacy = legacy
        self._entries: dict[str, PluginEntry] = {}
        self._sets = ToolSetCache(self._loaded, settings, legacy.tools)

    @property
    def services(self) -> Services:
        """The services that plugins use."""
        return self._services

    def offer(self, owner: str, tools: Iterable[Tool]) -> Callable[[], None]:
        """Offer tools that belong to no plugin, such as the tools of an MCP server, in all chats.
        They replace the tools that the same ``owner`` offered before. The returned function
        withdraws them."""
        return self._sets.offer(owner, tools)

    def tools_for(self, chat_key: ChatKey) -> ToolSet:
        """Get the tools that all chats of this chat's adapter have. `tools_in` also returns the
        tools that plugins choose for one chat. Neither method returns tools that are switched off
        in this chat."""
        tools = self._sets.of(self._services.adapter_of(chat_key.instance))
        return self._sets.narrowed(tools, self._services.tool_choices.of(chat_key))

    def all_tools(self) -> ToolSet:
        """Get the tools of all plugins, for chats of any adapter."""
        return self._sets.of("")

    async def tools_in(self, ctx: AgentCtx) -> ToolSet:
        """Get the tools that code of this chat may call, including those that plugins choose for
        this context."""
        tools = await self._sets.in_chat(ctx)
        return self._sets.narrowed(tools, self._services.tool_choices.of(ctx.chat))

    async def all_tools_in(self, ctx: AgentCtx) -> ToolSet:
        """Get the tools of `tools_in`, and those that are switched off in this chat."""
        return await self._sets.in_chat(ctx)

    def box_extras(self, ctx: AgentCtx) -> BoxExtras:
        """Get the variables and the links to files that this chat's box gets in addition to the
        tools."""
        make = self._legacy.box_extras
        return make(ctx) if make and has_lenient(self._loaded(ctx.adapter_key)) else NO_BOX_EXTRAS

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
        """Make the context of a run, a prompt or a message. For a prompt or a message, some of the
        arguments are left out."""
        return self._legacy.make_context(
            services=self._services,
            chat=chat_key,
            from_user_id=user_id,
            from_user_name=user_name,
            message_id=message_id,
            run_id=run_id,
            box=box,
        )

    async def prompt_injections(
        self, ctx: AgentCtx, asleep: Collection[str] = ()
    ) -> tuple[PromptInjection, ...]:
        """Get the texts that plugins add to the prompt, in the order of the plugins. A plugin that
        fails or exceeds its time limit adds nothing. Plugins whose keys are in ``asleep`` are
        skipped, and so are plugins that are switched off in this chat."""
        choice = self._services.tool_choices.of(ctx.chat)
        plugins = [
            each
            for each in self._plugins_of(ctx)
            if each.key not in asleep and not choice.leaves_out(each.key)
        ]
        given = await prompt_injections(plugins, ctx, self._settings.prompt_s)
        persona = await self._legacy.persona(ctx) if self._legacy.persona else ""
        return (PromptInjection("preset", persona), *given) if persona else given

    def has_message_hooks(self, ctx: AgentCtx) -> bool:
        """Return True if a plugin of this chat has a message hook."""
        return any(plugin.on_user_message_method for plugin in self._plugins_of(ctx))

    async def on_user_message(self, ctx: AgentCtx, message: ChatMessage) -> MessageSignal:
        """Call the message hooks one after another and merge their signals. A hook that fails or
        exceeds its time limit counts as `MsgSignal.CONTINUE`. If a plugin that was written for
        another bot forbids answers here (`LegacySupport.keeps_silent`), the merged signal is
        ``BLOCK_TRIGGER``, unless it is ``BLOCK_ALL``."""
        plugins = self._plugins_of(ctx)
        given = await message_signal(
            plugins,
            ctx,
            message,
            self._settings.message_s,
            self._legacy.message_form,
            self._legacy.message_changes,
        )
        silent = self._legacy.keeps_silent
        if silent and given.signal is not MsgSignal.BLOCK_ALL and silent(ctx):
            return replace(given, signal=MsgSignal.BLOCK_TRIGGER)
        return given

    async def on_channel_reset(self, ctx: AgentCtx) -> None:
        """Call the plugins' hooks for a reset of the chat's conversation. A plugin that fails or
        exceeds its time limit is skipped."""
        await notify_reset(self._plugins_of(ctx), ctx, self._settings.message_s)

    async def on_user_erase(
        self, ctx: AgentCtx, adapter: str, user_id: str
    ) -> tuple[int, list[str]]:
        """Call the plugins' hooks that erase a person. Returns how many things were deleted, and a
        sentence about each plugin that failed or exceeded its time limit."""
        plugins = self._plugins_of(ctx)
        return await notify_erasure(plugins, ctx, adapter, user_id, self._settings.tool_s)

    async def _system_signal(self, chat_key: ChatKey, text: str, run_id: str) -> MsgSignal:
        ctx = self.context_for(chat_key, run_id=run_id)
        return await system_message_signal(
            self._plugins_of(ctx), ctx, text, self._settings.message_s
        )

    def _loaded(self, adapter: str) -> list[PluginEntry]:
        return [
            entry
            for entry in self._entries.values()
            if (plugin := entry.plugin) is not None
            and (not adapter or not plugin.support_adapter or adapter in plugin.support_adapter)
        ]

    def _plugins_of(self, ctx: AgentCtx) -> list[NekroPlugin]:
        return [entry.plugin for entry in self._loaded(ctx.adapter_key) if entry.plugin]
