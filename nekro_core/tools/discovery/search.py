"""Finds the deferred tools of a set, and makes a search index of them. A deferred tool is a tool
that the prompt does not show in full."""

from collections.abc import Mapping
from dataclasses import dataclass

from nekro_core.tools.discovery.index import ToolIndex
from nekro_core.tools.names import NamedTool, ToolSet
from nekro_core.tools.tool import Tool, Visibility

SEARCH = "tool_search"
SEARCH_OWNER = "nekro.discovery"
"""The owner of the search tool, which belongs to no plugin."""


@dataclass(frozen=True, slots=True)
class DeferredTools:
    """The deferred tools of a set. ``single`` has the tools that are deferred individually.
    ``asleep`` has, by plugin key, the deferred tools of plugins that sleep. A plugin sleeps until
    the model's search has found one of its tools; meanwhile the prompt shows one line about the
    plugin."""

    single: tuple[NamedTool, ...]
    asleep: Mapping[str, tuple[NamedTool, ...]]

    @property
    def deferred(self) -> tuple[NamedTool, ...]:
        """All deferred tools."""
        return (*self.single, *(each for tools in self.asleep.values() for each in tools))

    @property
    def modules(self) -> tuple[str, ...]:
        """The short names of the deferred tools' plugins."""
        return tuple(dict.fromkeys(each.tool.module for each in self.deferred))


def deferred_tools_of(tools: ToolSet) -> DeferredTools:
    """Get the deferred tools of a set. Call it through `ToolSet.once`, which caches the result."""
    single: list[NamedTool] = []
    asleep: dict[str, tuple[NamedTool, ...]] = {}
    for named in tools.named:
        if named.tool.visibility is not Visibility.DEFERRED:
            continue
        if named.tool.sleep_brief:
            asleep[named.tool.owner] = (*asleep.get(named.tool.owner, ()), named)
        else:
            single.append(named)
    return DeferredTools(tuple(single), asleep)


def search_index_of(tools: ToolSet) -> ToolIndex:
    """Make a search index of the deferred tools of a set. Call it through `ToolSet.once`."""
    return ToolIndex(tools.once(deferred_tools_of).deferred)


def is_search(tool: Tool) -> bool:
    """Return True if a tool is the search tool itself."""
    return tool.owner == SEARCH_OWNER
