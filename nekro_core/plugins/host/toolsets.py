"""Caches the sets of tools of chats until a plugin is loaded or unloaded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

import anyio
from loguru import logger

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.entry import PluginEntry
from nekro_core.plugins.host.hooks import hook_result
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.policy.tool_choice import ToolChoice
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.tool import Tool

_MOST_SETS = 64
"""Maximum number of sets in the cache. Without this bound, the cache would grow if a plugin chooses
other tools at every call."""


class ToolSetCache:
    """Caches sets of tools by adapter and by the tools that plugins choose for a chat
    (`mount_collect_methods`).

    ``loaded`` returns the plugins that serve an adapter's chats; for an empty name, all plugins.
    Sets with a plugin that was written for another bot also have ``legacy_tools``.
    """

    def __init__(
        self,
        loaded: Callable[[str], Sequence[PluginEntry]],
        settings: PluginSettings,
        legacy_tools: Sequence[Tool] = (),
    ) -> None:
        self._loaded = loaded
        self._settings = settings
        self._legacy_tools = legacy_tools
        self._offered: dict[str, tuple[Tool, ...]] = {}
        self._sets: dict[tuple[str, tuple[int, ...] | None], ToolSet] = {}
        self._narrowed: dict[tuple[int, ToolChoice], tuple[ToolSet, ToolSet]] = {}

    def clear(self) -> None:
        """Drop all sets. Call this when plugins or tools have changed."""
        self._sets.clear()
        self._narrowed.clear()

    def narrowed(self, tools: ToolSet, choice: ToolChoice) -> ToolSet:
        """Get the tools of a set that the operator's choice for a chat allows."""
        if not choice.rules:
            return tools
        key = (id(tools), choice)
        if key not in self._narrowed:
            while len(self._narrowed) >= _MOST_SETS:
                del self._narrowed[next(iter(self._narrowed))]
            # Keep the whole set too: its id is in the key, and as long as the set exists, no other
            # object gets the same id.
            self._narrowed[key] = tools, tools.narrowed(choice.allows)
        return self._narrowed[key][1]

    def offer(self, owner: str, tools: Iterable[Tool]) -> Callable[[], None]:
        """See `PluginRegistry.offer`."""
        mine = self._offered[owner] = tuple(tools)
        self.clear()

        def withdraw() -> None:
            if self._offered.get(owner) is mine:
                del self._offered[owner]
                self.clear()

        return withdraw

    def of(self, adapter: str) -> ToolSet:
        """Get the tools that all chats of an adapter have, without the tools that plugins choose
        for a chat. For an empty name, get the tools of all plugins."""
        key = (adapter, None)
        if key not in self._sets:
            plugins = [
                entry
                for entry in self._loaded(adapter)
                if not adapter or entry.plugin is None or entry.plugin.collect_method is None
            ]
            self._keep(key, self._made(adapter, plugins, {}))
        return self._sets[key]

    async def in_chat(self, ctx: AgentCtx) -> ToolSet:
        """Get the present tools of a chat. A plugin whose collect hook fails or exceeds its time
        limit offers none."""
        adapter = ctx.adapter_key
        plugins = self._loaded(adapter)
        choosing = [entry for entry in plugins if entry.plugin and entry.plugin.collect_method]
        if not choosing:
            return self.of(adapter)
        chosen: dict[str, tuple[Tool, ...]] = {}

        async def choose(entry: PluginEntry) -> None:
            chosen[entry.item.item] = await self._choice(entry, ctx)

        async with anyio.create_task_group() as tasks:
            for entry in choosing:
                tasks.start_soon(choose, entry)
        ordered = [chosen[entry.item.item] for entry in choosing]
        # Ids of tools are safe as keys: a cached set holds its tools, and as long as they exist, no
        # other objects get their ids.
        key = (adapter, tuple(id(tool) for tool in chain(*ordered)))
        if key not in self._sets:
            self._keep(key, self._made(adapter, plugins, chosen))
        return self._sets[key]

    async def _choice(self, entry: PluginEntry, ctx: AgentCtx) -> tuple[Tool, ...]:
        plugin = entry.plugin
        assert plugin is not None
        assert plugin.collect_method is not None
        question = partial(plugin.collect_method, ctx.called_for(plugin.key))
        found = await hook_result(plugin, "its collect method", question, self._settings.prompt_s)
        if found is None or entry.plugin is not plugin:
            return ()
        try:
            return entry.chosen(list(found), self._settings)
        except TypeError as error:
            logger.error("plugin {}: its collect method: {}", plugin.key, error)
            return ()

    def _keep(self, key: tuple[str, tuple[int, ...] | None], made: ToolSet) -> None:
        while len(self._sets) >= _MOST_SETS:
            del self._sets[next(iter(self._sets))]
        self._sets[key] = made

    def _made(
        self, adapter: str, plugins: Sequence[PluginEntry], chosen: Mapping[str, tuple[Tool, ...]]
    ) -> ToolSet:
        legacy = self._legacy_tools if has_lenient(plugins) else ()
        own = (chosen.get(entry.item.item, entry.info.tools) for entry in plugins)
        return tool_set(
            (
                tool
                for tool in chain(*own, *self._offered.values(), legacy)
                if not adapter or not tool.adapters or adapter in tool.adapters
            ),
            builtin={entry.info.key for entry in plugins if entry.item.builtin},
            order=self._settings.order,
        )


def has_lenient(plugins: Iterable[PluginEntry]) -> bool:
    """Return True if one of these plugins was written for another bot
    (`NekroPlugin.is_lenient`)."""
    return any(entry.plugin is not None and entry.plugin.is_lenient for entry in plugins)
