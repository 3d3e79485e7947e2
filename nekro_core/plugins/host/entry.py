"""One plugin in the registry: its place on disk, its object while it is loaded, and its tools."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nekro_core.plugins.authoring.binding import PluginOwner
from nekro_core.plugins.authoring.declarations import Collected, SandboxMethod
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.kinds import DeclarationRefused, PluginKind
from nekro_core.plugins.host.listing import PluginInfo, PluginState
from nekro_core.plugins.host.loader import DiscoveredPlugin
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.tools.describe import ToolDescription, describe
from nekro_core.tools.problem import PluginProblem, ProblemSeverity
from nekro_core.tools.tool import Tool, ToolKind, Visibility


@dataclass(slots=True)
class PluginEntry:
    """A plugin that was found. ``plugin`` is None while it is not loaded."""

    item: DiscoveredPlugin
    info: PluginInfo
    owner: PluginOwner
    kind: PluginKind | None = None
    plugin: NekroPlugin | None = None
    described: dict[SandboxMethod, ToolDescription] = field(default_factory=dict)
    """Caches the description of each method, so that a method is inspected only once."""

    def describe(self, settings: PluginSettings) -> None:
        """Update ``info`` from the plugin's present state."""
        plugin = self.plugin
        assert plugin is not None
        tools = [_asleep(tool, plugin) for tool in plugin.offered_tools]
        problems: list[PluginProblem] = [*plugin.problems]
        for method in plugin.sandbox_methods[: settings.most_tools]:
            described = self._described(method, plugin, settings)
            problems += described.problems
            if described.tool is not None:
                tools.append(described.tool)
        wanted = max(len(plugin.offered_tools), len(plugin.sandbox_methods))
        if wanted > settings.most_tools:
            problems.append(_flood("tools", wanted, settings.most_tools))
        self.info = PluginInfo(
            item=self.item.item,
            state=PluginState.LOADED,
            key=plugin.key,
            name=plugin.name,
            version=plugin.version,
            author=plugin.author,
            description=plugin.description,
            tools=tuple(tools[: settings.most_tools]),
            addresses=tuple(plugin.addresses),
            problems=tuple(problems),
        )

    def chosen(self, collected: Collected, settings: PluginSettings) -> tuple[Tool, ...]:
        """Get the tools for the functions that the plugin's collect hook returned. Raises
        `TypeError` if the hook returned anything but functions and `SandboxMethod` values."""
        assert self.plugin is not None
        known = {tool.handler: tool for tool in self.info.tools}
        tools = []
        for each in collected[: settings.most_tools]:
            function = getattr(each, "func", each)
            if not callable(function):
                raise TypeError(f"expected functions, got {type(each).__name__}")
            tool = known.get(function)
            if tool is None:
                tool = self._described(_method(each), self.plugin, settings).tool
            if tool is not None:
                tools.append(tool)
        return tuple(tools)

    def forget(self) -> None:
        """Drop every reference to the loaded plugin."""
        if self.plugin is not None:
            self.plugin.is_enabled = False
        self.plugin = None
        self.described.clear()
        self.info = replace(self.info, state=PluginState.DISABLED, tools=(), problems=())

    def _described(
        self, method: SandboxMethod, plugin: NekroPlugin, settings: PluginSettings
    ) -> ToolDescription:
        if (known := self.described.get(method)) is not None:
            return known
        # A collect hook may make new methods at each call, so bound the cache.
        if len(self.described) >= 2 * settings.most_tools:
            self.described.clear()
        described = describe(
            method.func,
            method.method_type,
            name=method.name,
            description=method.description,
            module=plugin.module_key,
            owner=plugin.key,
            timeout_s=settings.tool_s,
            needs_chat=method.needs_chat,
            visibility=method.visibility,
            confirms=method.confirms,
            for_small_models=plugin.for_small_models,
            lenient=plugin.is_lenient,
            examples=method.examples,
        )
        if described.tool is not None:
            own = str(self.item.folder or self.item.path) if plugin.is_lenient else ""
            tool = replace(described.tool, around=plugin.acting, own_files=own)
            described = replace(described, tool=_asleep(tool, plugin))
        self.described[method] = described
        return described


def _asleep(tool: Tool, plugin: NekroPlugin) -> Tool:
    """If the plugin may sleep and the tool is visible, return the tool as a deferred tool."""
    if not plugin.allow_sleep or tool.visibility is not Visibility.VISIBLE:
        return tool
    brief = plugin.sleep_brief or plugin.description or plugin.name
    return replace(tool, visibility=Visibility.DEFERRED, sleep_brief=brief)


def _method(each: Callable[..., Any] | SandboxMethod) -> SandboxMethod:
    if isinstance(each, SandboxMethod):
        return each
    kind = getattr(each, "_method_type", ToolKind.TOOL)
    return SandboxMethod(kind, getattr(each, "__name__", "function"), "", each)


def check_declaration_count(plugin: NekroPlugin, value: object, most: int) -> None:
    """Raise `DeclarationRefused` if the value is not among the first ``most`` declarations of the
    plugin."""
    declared = plugin.declared
    if len(declared) > most and not any(each is value for each in declared[:most]):
        raise DeclarationRefused(
            f"it declares more than {most} commands and the like, the rest is refused",
            remedy="declare fewer, or raise NEKRO_PLUGIN__MOST_TOOLS",
        )


def _flood(what: str, wanted: int, most: int) -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.ERROR,
        message=f"it registers {wanted} {what}, the first {most} are taken",
        remedy="register fewer, or raise NEKRO_PLUGIN__MOST_TOOLS",
    )
