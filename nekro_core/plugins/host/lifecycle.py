"""Starts and ends one plugin: import, init method, cleanup method, undo steps."""

from collections.abc import Sequence
from dataclasses import replace

import anyio

from nekro_core.plugins.authoring.binding import acting
from nekro_core.plugins.authoring.declarations import Lifecycle
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.entry import PluginEntry
from nekro_core.plugins.host.hooks import await_if_needed, hook_result
from nekro_core.plugins.host.loader import LoadFailed, load_plugin, problem_of
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.system.sync_bridge import run_bridged
from nekro_core.tools.describe import place_of


class PluginLifecycle:
    """Runs the steps of starting and ending a plugin, each with a time limit."""

    def __init__(self, settings: PluginSettings) -> None:
        self._settings = settings

    async def imported(self, entry: PluginEntry) -> NekroPlugin:
        """Import the plugin and return its object. If this raises `LoadFailed`, call `undo` to undo
        what was done before the error."""
        limit_s = self._settings.import_s
        if entry.kind is None:
            return await load_plugin(entry.item, entry.owner, limit_s)
        try:
            with acting(entry.owner):
                return await entry.kind.load(entry.item, entry.owner.effects, limit_s)
        except LoadFailed:
            raise
        except BaseException as error:
            if is_cancellation(error):
                raise
            raise LoadFailed(problem_of(error, entry.item)) from error

    async def begin(self, entry: PluginEntry, plugin: NekroPlugin) -> None:
        """Run the plugin's init method. Raises `LoadFailed`."""
        if plugin.init_method is None:
            return
        try:
            with anyio.fail_after(self._settings.init_s), plugin.acting():
                await run_bridged(await_if_needed(plugin.init_method()))
        except TimeoutError as error:
            text = f"its init method took over {self._settings.init_s:g} s"
            problem = problem_of(error, entry.item, text)
            where, remedy = place_of(plugin.init_method), "give what it waits for a time limit"
            raise LoadFailed(replace(problem, where=where, remedy=remedy)) from None
        except BaseException as error:
            if is_cancellation(error):
                raise
            raise LoadFailed(problem_of(error, entry.item)) from error

    async def enabled(self, plugin: NekroPlugin) -> None:
        """Call the plugin's on_enabled methods."""
        await self._tell(plugin, "an on_enabled method", plugin.enabled_methods)

    async def end(self, entry: PluginEntry) -> None:
        """Call the plugin's on_disabled and cleanup methods, then undo its changes."""
        plugin = entry.plugin
        if plugin is not None:
            ends = [plugin.cleanup_method] if plugin.cleanup_method else []
            await self._tell(plugin, "an on_disabled method", plugin.disabled_methods)
            await self._tell(plugin, "its cleanup method", ends)
        await self.undo(entry)

    async def undo(self, entry: PluginEntry) -> None:
        """Undo the plugin's changes. The plugin's tasks are ended first, because they use the
        things that the undo steps remove."""
        await entry.owner.tasks.end(self._settings.cleanup_s)
        await entry.owner.effects.undo(self._settings.cleanup_s)

    async def _tell(self, plugin: NekroPlugin, what: str, methods: Sequence[Lifecycle]) -> None:
        for method in methods:
            await hook_result(plugin, what, method, self._settings.cleanup_s)
