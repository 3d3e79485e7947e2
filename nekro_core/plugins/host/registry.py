"""Finds, loads, lists, enables and disables the plugins of one bot."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import anyio
from loguru import logger

from nekro_core.plugins.authoring.binding import PluginBinding, PluginOwner, serving
from nekro_core.plugins.authoring.effects import OwnedTasks
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.host.active_plugins import ActivePlugins
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.plugins.host.entry import PluginEntry, check_declaration_count
from nekro_core.plugins.host.isolation.adopted_tasks import adopt_plugin_tasks
from nekro_core.plugins.host.isolation.patches import PatchDetector, by_plugin, patch_problem
from nekro_core.plugins.host.kinds import (
    NO_LEGACY_SUPPORT,
    NO_REGISTRARS,
    DeclarationRefused,
    LegacySupport,
    PluginKind,
    Registrars,
)
from nekro_core.plugins.host.lifecycle import PluginLifecycle
from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.host.listing import (
    PluginInfo,
    PluginState,
    PluginSuspended,
    UnknownPlugin,
)
from nekro_core.plugins.host.loader import (
    DiscoveredPlugin,
    LoadFailed,
    SwitchedOff,
    discover_plugins,
    without_bytecode_cache,
)
from nekro_core.plugins.host.reload_on_edit import watch_files
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.host.switches import PluginSwitches, write_list
from nekro_core.system.background_tasks import background_tasks
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

_MOST_TOLD = 1000
"""Maximum number of problems that are remembered, so that each is logged only once. Each reload may
find new problems."""


class PluginRegistry(ActivePlugins):
    """The plugins of one bot, made by `open`. A broken plugin is listed with its problem and does
    not affect other plugins."""

    def __init__(
        self,
        services: Services,
        settings: PluginSettings,
        builtin: Path,
        kinds: Sequence[PluginKind] = (),
        registrars: Registrars = NO_REGISTRARS,
        legacy: LegacySupport = NO_LEGACY_SUPPORT,
    ) -> None:
        super().__init__(services, settings, legacy)
        services = self._services
        self._kinds = tuple(kinds)
        self._registrars = registrars
        self._folders = {"builtin": builtin, "local": services.data_dir / LOCAL_FOLDER}
        self._choices = PluginSwitches(services.data_dir)
        self._binding = PluginBinding(
            data_dir=services.data_dir,
            plugin_data=services.plugin_data,
            changed=self._describe_all,
            put=self._put,
            services=services,
            make_context=legacy.make_context,
        )
        self._told: set[str] = set()
        self._noted = PatchDetector()
        self._life = PluginLifecycle(settings)
        self._lock = anyio.Lock()
        self._suspended: set[str] = set()
        self._reported: Mapping[str, Sequence[PluginProblem]] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        services: Services,
        settings: PluginSettings | None = None,
        *,
        builtin: Path | None = None,
        kinds: Sequence[PluginKind] = (),
        registrars: Registrars = NO_REGISTRARS,
        legacy: LegacySupport = NO_LEGACY_SUPPORT,
    ) -> AsyncIterator[Self]:
        """Load every plugin that is switched on, and unload them when the block ends. Plugins'
        errors are not raised.

        ``builtin`` is the folder of the built-in plugins; None for the usual one. ``kinds`` load
        plugins written for another bot, and ``legacy`` has the objects that such plugins need.
        ``registrars`` put declared values into effect.
        """
        folder = builtin or builtin_folder("plugins")
        registry = cls(services, settings or PluginSettings(), folder, kinds, registrars, legacy)
        with without_bytecode_cache(), adopt_plugin_tasks(), serving(registry._binding):
            async with registry._open():
                yield registry

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        try:
            await self.load_all()
            async with background_tasks() as tasks:
                tasks.start_soon(self.follow_switches)
                if self._settings.watch_files:
                    tasks.start_soon(watch_files, self._folders["local"], self.reload)
                yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.unload_all()

    def plugins(self) -> tuple[PluginInfo, ...]:
        """Get every plugin that was found, and every plugin about which `report` says something. A
        plugin's problems include clashes of its tools' names."""
        clashes = self._sets.of("").clashes
        found = tuple(
            replace(
                entry.info,
                problems=entry.info.problems
                + tuple(
                    PluginProblem(severity=ProblemSeverity.WARNING, message=clash.message)
                    for clash in clashes
                    if entry.info.key in clash.owners
                )
                + self._stale_packages(entry.item.item)
                + tuple(self._reported.get(entry.item.item, ())),
            )
            for entry in self._entries.values()
        )
        missing = {item: told for item, told in self._reported.items() if item not in self._entries}
        return found + tuple(
            PluginInfo(item=item, state=PluginState.BROKEN, problems=tuple(told))
            for item, told in missing.items()
        )

    def broken(self) -> Mapping[str, str]:
        """Return why plugins cannot be loaded in this process, by item."""
        return {
            item: "; ".join(map(str, entry.info.problems)) or "it cannot be loaded"
            for item, entry in self._entries.items()
            if entry.info.state is PluginState.BROKEN
        }

    def report(self, problems: Mapping[str, Sequence[PluginProblem]]) -> None:
        """Replace what the cluster says about plugins, by item: which processes cannot use a
        plugin, and which plugins only this process has. It is shown with the plugins' own
        problems."""
        if problems != self._reported:
            self._reported = problems
            self._write_list()

    async def switch(self, item: str, key: str, *, wanted: bool) -> None:
        """Store that a plugin is on or off, even if this process does not have it, and load or
        unload it. Raises `OSError`."""
        async with self._lock:
            self._choices.choose(item, key, wanted=wanted)
        await self.load_all()

    @property
    def at_next_start(self) -> tuple[str, ...]:
        """Return sentences about packages whose imported version is not the installed version. The
        next start imports the installed version."""
        packages = self._services.packages
        return tuple(map(str, packages.stale)) if packages is not None else ()

    async def load_all(self) -> None:
        """Search the folders, load plugins that are switched on, and unload those that are switched
        off or whose files are gone."""
        async with self._lock:
            if self._services.packages is not None:
                self._services.packages.refresh()  # a command may have installed packages
            self._find()
            await self._forget_gone()
            to_load = []
            for entry in self._entries.values():
                wanted = self._may_load(entry.item.item)
                if wanted and entry.info.state is PluginState.DISABLED:
                    to_load.append(entry)
                elif not wanted and entry.info.state is not PluginState.DISABLED:
                    await self._switch_off(entry)
            await self._load_these(to_load)
            self._write_list()

    async def follow_switches(self) -> None:
        """Load and unload plugins whenever the operator's file of switches changes, and give
        plugins the new values of their configuration files when these change. Runs until
        cancelled."""
        while True:
            await anyio.sleep(self._settings.look_s)
            for entry in self._entries.values():
                if entry.plugin is not None:
                    entry.plugin.look_at_config()
            if self._choices.changed():
                await self.load_all()

    async def unload_all(self) -> None:
        """Unload all plugins at the same time. Their cleanup methods run."""
        async with self._lock, anyio.create_task_group() as tasks:
            for entry in self._entries.values():
                tasks.start_soon(self._life.end, entry)

    def loaded(self, key: str) -> NekroPlugin:
        """Return the object of a loaded plugin, by its key or item. Raises `UnknownPlugin` if no
        such plugin is loaded."""
        plugin = self._entry(key).plugin
        if plugin is None:
            raise UnknownPlugin(f"the plugin {key!r} is not loaded")
        return plugin

    async def enable(self, plugin: str) -> PluginInfo:
        """Load a plugin by key or item, and store that it is on. If the plugin is already loaded,
        it is reloaded from its files. Raises `UnknownPlugin` and `PluginSuspended`."""
        async with self._lock:
            self._find()
            entry = self._entry(plugin)
            if entry.item.item in self._suspended:
                raise PluginSuspended(f"{entry.item.item} is being replaced now: try again then")
            self._choices.choose(entry.item.item, entry.info.key, wanted=True)
            await self._life.end(entry)
            await self._load_these([entry])
            self._write_list()
        return entry.info

    async def reload(self, plugin: str) -> None:
        """Reload a plugin from its files if it is on. ``plugin`` is its item; for an unknown item
        this does nothing."""
        async with self._lock:
            self._find()
            entry = self._entries.get(plugin)
            if entry is not None and self._may_load(plugin):
                await self._life.end(entry)
                await self._load(entry)
                self._write_list()

    async def disable(self, plugin: str) -> PluginInfo:
        """Unload a plugin, and store that it is off. Raises `UnknownPlugin`."""
        async with self._lock:
            entry = self._entry(plugin)
            self._choices.choose(entry.item.item, entry.info.key, wanted=False)
            await self._switch_off(entry)
            self._write_list()
        return entry.info

    async def suspend(self, item: str) -> None:
        """Unload a plugin before its files are replaced. Until `resume` is called, the plugin is
        not loaded, even if it is switched on. The plugin need not exist yet."""
        async with self._lock:
            self._suspended.add(item)
            if (entry := self._entries.get(item)) is not None:
                await self._switch_off(entry)
                self._write_list()

    async def resume(self, item: str) -> PluginInfo | None:
        """Undo `suspend`: load the plugin from its present files if it is switched on. Returns the
        plugin with its new state; None if the plugin has no files."""
        async with self._lock:
            self._suspended.discard(item)
            if self._services.packages is not None:
                self._services.packages.refresh()
            found = next((each for each in self._discovered() if each[0].item == item), None)
            before = self._entries.get(item)
            if found is None:
                self._entries.pop(item, None)
            else:  # Make a new entry, because the new files may be a plugin of another kind.
                owner = before.owner if before is not None else self._owner_of(found[0])
                fresh = self._new_entry(*found, owner)
                if before is not None:
                    fresh.info = replace(fresh.info, key=before.info.key)
                self._entries[item] = fresh
                if self._may_load(item):
                    await self._load_these([self._entries[item]])
            self._sets.clear()
            self._write_list()
            return self._entries[item].info if found is not None else None

    def _may_load(self, item: str) -> bool:
        return self._choices.wanted(item) and item not in self._suspended

    def _find(self) -> None:
        for item, kind in self._discovered():
            if item.item not in self._entries:
                self._entries[item.item] = self._new_entry(item, kind, self._owner_of(item))

    def _discovered(self) -> Iterator[tuple[DiscoveredPlugin, PluginKind | None]]:
        seen = set()
        for source, folder in self._folders.items():
            for kind in (*self._kinds, None):
                for item in (
                    discover_plugins(source, folder) if kind is None else kind.items(source, folder)
                ):
                    if item.item not in seen:
                        seen.add(item.item)
                        yield item, kind

    def _new_entry(
        self, item: DiscoveredPlugin, kind: PluginKind | None, owner: PluginOwner
    ) -> PluginEntry:
        key = self._choices.key_of(item.item)
        info = PluginInfo(item=item.item, state=PluginState.DISABLED, key=key)
        return PluginEntry(item, info, owner, kind)

    def _stale_packages(self, item: str) -> tuple[PluginProblem, ...]:
        packages = self._services.packages
        stale = packages.stale_for(item) if packages is not None else ()
        return tuple(
            PluginProblem(severity=ProblemSeverity.WARNING, message=str(each)) for each in stale
        )

    async def _forget_gone(self) -> None:
        """Unload and drop the plugins whose files were removed."""
        for item, entry in [*self._entries.items()]:
            if not entry.item.path.exists():
                await self._switch_off(entry)
                del self._entries[item]

    def _owner_of(self, item: DiscoveredPlugin) -> PluginOwner:
        return PluginOwner(item=item.item, binding=self._binding, tasks=OwnedTasks(item.item))

    def _write_list(self) -> None:
        try:
            write_list(self._services.data_dir, self.plugins())
        except OSError as error:
            logger.error("the list of plugins cannot be written: {}", error)

    async def _load_these(self, entries: Sequence[PluginEntry]) -> None:
        """Load plugins. Report functions of the bot or of libraries that an installed plugin has
        replaced."""
        installed = {each.item.item: each for each in entries if not each.item.builtin}
        look = partial(anyio.to_thread.run_sync, self._noted.changes)
        if installed:
            await look()
        for entry in entries:
            await self._load(entry)
        found = await look() if installed else {}
        for item, names in by_plugin(found, installed).items():
            plugin = installed[item].plugin if item else None
            if plugin is not None:
                plugin.problems.append(patch_problem(names, plugin.key))
                self._describe(installed[item])
            else:
                what = ", ".join(installed)
                logger.warning("{}", patch_problem(names, item or f"one of {what}"))

    async def _load(self, entry: PluginEntry) -> None:
        try:
            plugin = await self._life.imported(entry)
            self._refuse_twin(entry, plugin)
            await self._life.begin(entry, plugin)
        except LoadFailed as failure:
            await self._life.undo(entry)
            off = isinstance(failure, SwitchedOff)
            entry.info = replace(
                entry.info,
                state=PluginState.DISABLED if off else PluginState.BROKEN,
                tools=(),
                problems=(failure.problem,),
            )
            if off:
                logger.info("plugin {} is not loaded: {}", entry.item.item, failure)
                return
            logger.opt(exception=failure.__cause__).error(
                "plugin {} is not loaded: {}", entry.item.item, failure
            )
            return
        entry.plugin = plugin
        plugin.is_enabled = True
        entry.owner.effects.add(f"{plugin.key} in force", lambda: self._drop(entry))
        for value in tuple(plugin.declared):
            self._put(plugin, value)
        self._describe(entry)
        await self._life.enabled(plugin)

    def _put(self, plugin: NekroPlugin, value: object) -> None:
        """Put a declared value into effect."""
        if (registrar := self._registrars.get(type(value))) is None:
            return
        try:
            check_declaration_count(plugin, value, self._settings.most_tools)
            with plugin.acting():
                registrar(plugin, value)
        except DeclarationRefused as error:
            if error.problem not in plugin.problems:
                plugin.problems.append(error.problem)
                self._describe_all()
        except Exception as error:  # noqa: BLE001 - plugin code may run and raise anything
            logger.exception("plugin {}: {} has no effect", plugin.key, type(value).__name__)
            text = f"{type(value).__name__} is not in force: {type(error).__name__}: {error}"
            plugin.problems.append(PluginProblem(severity=ProblemSeverity.ERROR, message=text))
            self._describe_all()

    def _refuse_twin(self, entry: PluginEntry, plugin: NekroPlugin) -> None:
        for other in self._entries.values():
            if other.plugin is not None and other.plugin.key == plugin.key:
                raise LoadFailed(
                    PluginProblem(
                        severity=ProblemSeverity.ERROR,
                        message=f"its key {plugin.key} is that of {other.item.item}",
                        where=f"{entry.item.path}:1",
                        remedy="change its author or module_name, or disable the other",
                    )
                )

    async def _switch_off(self, entry: PluginEntry) -> None:
        await self._life.end(entry)
        entry.info = replace(entry.info, state=PluginState.DISABLED, problems=())

    def _drop(self, entry: PluginEntry) -> None:
        entry.forget()
        self._sets.clear()

    def _describe(self, entry: PluginEntry) -> None:
        entry.describe(self._settings)
        self._sets.clear()
        for problem in entry.info.problems:
            self._tell(f"plugin {entry.info.key}: {problem}", problem.severity)
        for clash in self._sets.of("").clashes:
            self._tell(f"tool name {clash.message}", ProblemSeverity.WARNING)

    def _describe_all(self) -> None:
        for entry in self._entries.values():
            if entry.plugin is not None:
                self._describe(entry)

    def _tell(self, text: str, severity: ProblemSeverity) -> None:
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        if text not in self._told:
            self._told.add(text)
            logger.log(severity.name, "{}", text)

    def _entry(self, plugin: str) -> PluginEntry:
        for entry in self._entries.values():
            if plugin and plugin in (entry.item.item, entry.info.key):
                return entry
        known = ", ".join(entry.info.key or item for item, entry in self._entries.items())
        raise UnknownPlugin(f"there is no plugin {plugin!r}; there are {known or 'none'}")
