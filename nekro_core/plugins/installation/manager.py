"""Changes the plugins of a running bot: installs, updates, restores old versions, switches, reloads
and removes plugins, without a restart and without touching other plugins.

`Installer` does the work on files, git and pip in a worker thread, while the plugin that is changed
still runs. The plugin is unloaded only while its files are replaced, and then loaded again. If a
turn got the plugin's tools before the change, its calls still run the old code, or they fail with
an error that says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from nekro_core.plugins.host.listing import PluginInfo, PluginState, UnknownPlugin
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.bot_follower import (
    InstallRefused,
    InstallStage,
    Preflight,
    no_preflight,
)
from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.installed import InstalledPlugin, InstallRecords
from nekro_core.plugins.installation.own_writes import changes_of_others
from nekro_core.plugins.installation.plugin_index import IndexedPlugin, read_index
from nekro_core.plugins.installation.proposal import PluginProposal
from nekro_core.plugins.installation.received import ReceivedPlugin, ReceivingInstaller
from nekro_core.plugins.installation.sources import FetchedPlugin, parse
from nekro_core.plugins.installation.uploads import FOLDER, PluginUploads
from nekro_core.plugins.installation.versions import OldVersion, OldVersions
from nekro_core.plugins.packages import PackageFolder
from nekro_core.tools.problem import ProblemSeverity

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallStep:
    """A report about a running installation, for the operator: a new stage has begun, or ``text``
    is a line about the present stage."""

    stage: InstallStage
    text: str = ""

    @property
    def can_be_cancelled(self) -> bool:
        """Whether a cancellation at this step leaves all plugins unchanged."""
        return self.stage in (InstallStage.FETCH, InstallStage.PACKAGES, InstallStage.CHECK)


Progress = Callable[[InstallStep], None]
"""Called in the event loop with each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedPlugin:
    """A plugin as the operator manages it.

    Attributes:
        info: Its state, tools and problems.
        builtin: Whether it came with the bot. Such a plugin can be switched on and off, but not
            updated or removed.
        source: The source from which it was installed, without a password; empty if the operator
            put it into the folder by hand.
        installed: When it was installed, in seconds since 1970; 0 if not known.
        commit: Git's id of the installed commit; empty for other sources.
        changed: One line for each file that somebody has changed since the installation.
            `PluginManager.plugins` leaves this empty.
        versions: The old versions that can be restored, the newest first.
    """

    info: PluginInfo
    builtin: bool
    source: str = ""
    installed: float = 0.0
    commit: str = ""
    changed: tuple[str, ...] = ()
    versions: tuple[OldVersion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginChange:
    """The outcome of a change of a plugin's files. ``info`` is the plugin; None if it was removed.
    ``before`` is its former version; empty if there was none. ``changed`` is False if no file was
    changed, for example because the source of an update has the same files."""

    item: str
    info: PluginInfo | None
    before: str = ""
    changed: bool = True


def _no_progress(step: InstallStep) -> None:
    del step


def _nobody_to_tell(item: str, by: str) -> None:
    del item, by


class PluginManager:
    """Manages the plugins of the bot of this process. Changes of files happen one after another.

    The methods that change files can be cancelled until the replacement of files begins. After a
    cancellation, all plugins are unchanged.
    """

    def __init__(
        self,
        registry: PluginRegistry,
        data_dir: Path,
        shelf: PackageFolder,
        settings: PluginSettings,
        *,
        preflight: Preflight = no_preflight,
        check: Callable[[FetchedPlugin], CheckResult] | None = None,
    ) -> None:
        """``shelf`` is the package folder on ``sys.path``. ``preflight`` and ``check`` are as in
        `Installer`."""
        self._registry = registry
        self._data_dir = data_dir
        self._shelf = shelf
        self._settings = settings
        self._preflight = preflight
        self._check = check
        self._changes = anyio.Lock()
        self.changed: Callable[[str, str], None] = _nobody_to_tell
        """Called with the item of each plugin that an operator has changed through this object, and
        with the operator's name."""
        self._uploads = PluginUploads(data_dir / FOLDER)

    async def plugins(self) -> tuple[ManagedPlugin, ...]:
        """List all plugins, including the built-in ones. `ManagedPlugin.changed` is left empty,
        because to fill it, all files of all plugins must be read; `one` fills it."""
        infos = self._registry.plugins()
        return await anyio.to_thread.run_sync(partial(self._listed, infos))

    async def one(self, plugin: str) -> ManagedPlugin:
        """Get one plugin by key or item. Raises `UnknownPlugin`."""
        info = self.info(plugin)
        (found,) = await anyio.to_thread.run_sync(partial(self._listed, (info,)))
        changed = await anyio.to_thread.run_sync(
            InstallRecords(self._data_dir).changed_since, info.item
        )
        return replace(found, changed=tuple(changes_of_others(changed)))

    def info(self, plugin: str) -> PluginInfo:
        """Get the present state of a plugin by key or item. Raises `UnknownPlugin`."""
        every = self._registry.plugins()
        for info in every:
            if plugin and plugin in (info.item, info.key):
                return info
        known = ", ".join(info.key or info.item for info in every)
        raise UnknownPlugin(f"there is no plugin {plugin!r}; there are {known or 'none'}")

    async def index(self, address: str) -> tuple[IndexedPlugin, ...]:
        """Read an index of plugins at an address. Raises `IndexRefused`."""
        return await anyio.to_thread.run_sync(read_index, address)

    async def keep_upload(self, name: str, data: bytes) -> Path:
        """Store a zip or Python file that an operator uploaded. Returns its path, which can be used
        as a source for `look` and `install`. Raises `SourceRefused` and `OSError`."""
        return await anyio.to_thread.run_sync(self._uploads.keep, name, data)

    async def look(
        self, source: str, *, check: bool = True, progress: Progress = _no_progress
    ) -> PluginProposal:
        """Fetch a plugin and describe what it is and what it may do, without changing anything.

        ``source`` is a git address, a folder, a file, a zip or the address of a zip. With
        ``check``, the plugin is loaded in a confined process, with the packages that it needs.

        Raises `SourceRefused`, `FilesRefused`, `InvalidRequirements` and `PackagesRefused`.
        """

        def work(installer: Installer) -> PluginProposal:
            return installer.propose(parse(source), check=check)

        return await self._in_thread(work, progress)

    async def look_at_update(
        self, plugin: str, *, check: bool = True, progress: Progress = _no_progress
    ) -> PluginProposal:
        """Do the same as `look` for a new version of an installed plugin, from its source. Also
        raises `InstallRefused` and `UnknownPlugin`."""
        item = self.info(plugin).item

        def work(installer: Installer) -> PluginProposal:
            return installer.propose_update(item, check=check)

        return await self._in_thread(work, progress)

    async def install(
        self,
        source: str,
        *,
        expected: str = "",
        force: bool = False,
        by: str = "",
        progress: Progress = _no_progress,
    ) -> PluginChange:
        """Install a plugin with its packages, and load it. ``by`` is the name of the operator.

        ``expected`` is the `PluginProposal.digest` that the operator was shown. If the files have
        another digest, they are refused. Without ``force``, a plugin that cannot be loaded is not
        installed.

        Raises `InstallRefused`, `SourceRefused`, `FilesRefused`, `InvalidRequirements` and
        `PackagesRefused`. After an error, no plugin has changed.
        """

        def work(installer: Installer) -> str:
            return installer.install(parse(source), force=force, expected=expected)

        async with self._changes:
            item = await self._in_thread(work, progress)
        self.changed(item, by)
        return PluginChange(item=item, info=self.info(item))

    async def update(
        self,
        plugin: str,
        *,
        source: str = "",
        expected: str = "",
        force: bool = False,
        by: str = "",
        progress: Progress = _no_progress,
    ) -> PluginChange:
        """Fetch a new version of a plugin, from ``source`` or, if it is empty, from the source from
        which the plugin was installed, and load it. The old version is kept. If the new version
        cannot be loaded, the old one is restored and loaded again. Arguments and errors are as in
        `install`; also raises `UnknownPlugin`."""
        async with self._changes:
            before = self.info(plugin)

            def work(installer: Installer) -> str:
                place = parse(source) if source else None
                return installer.update(before.item, force=force, expected=expected, source=place)

            item = await self._in_thread(work, progress)
        self.changed(before.item, by)
        return self._change(before, changed=bool(item))

    async def roll_back(
        self,
        plugin: str,
        number: int | None = None,
        *,
        by: str = "",
        progress: Progress = _no_progress,
    ) -> PluginChange:
        """Replace a plugin by an old version, the newest if ``number`` is None, even if this
        version cannot be loaded. The replaced version becomes an old version. Raises
        `InstallRefused`, `PackagesRefused` and `UnknownPlugin`."""
        async with self._changes:
            before = self.info(plugin)
            work = partial(_rolled_back, name=before.item, number=number)
            await self._in_thread(work, progress)
        self.changed(before.item, by)
        return self._change(before)

    async def remove(
        self, plugin: str, *, data: bool, by: str = "", progress: Progress = _no_progress
    ) -> PluginChange:
        """Unload a plugin and delete its files, its old versions and the packages that it alone
        needed. With ``data``, its data folder and configuration are deleted too. Raises
        `InstallRefused` and `UnknownPlugin`."""
        async with self._changes:
            before = self._own(plugin)

            def work(installer: Installer) -> str:
                return installer.remove(before.item, data=data)

            await self._in_thread(work, progress)
        self.changed(before.item, by)
        return PluginChange(item=before.item, info=None, before=before.version)

    async def put(self, plugin: ReceivedPlugin) -> None:
        """See `PluginReceiver.put`."""
        async with self._changes:
            await self._in_thread(lambda installer: installer.put(plugin), _no_progress)

    async def take_away(self, item: str, *, data: bool) -> None:
        """See `PluginReceiver.take_away`."""
        async with self._changes:
            await self._in_thread(
                lambda installer: installer.take_away(item, data=data), _no_progress
            )

    async def switch(self, item: str, key: str, *, wanted: bool) -> None:
        """See `PluginReceiver.switch`."""
        await self._registry.switch(item, key, wanted=wanted)

    async def enable(self, plugin: str, *, by: str = "") -> PluginInfo:
        """Load a plugin at once and at each later start. Raises `UnknownPlugin` and
        `PluginSuspended`."""
        info = await self._registry.enable(plugin)
        self.changed(info.item, by)
        return info

    async def disable(self, plugin: str, *, by: str = "") -> PluginInfo:
        """Unload a plugin until it is enabled again. Raises `UnknownPlugin`."""
        info = await self._registry.disable(plugin)
        self.changed(info.item, by)
        return info

    async def reload(self, plugin: str) -> PluginInfo:
        """Load a plugin anew from its files. Raises `UnknownPlugin`, and `InstallRefused` if the
        plugin is disabled."""
        info = self.info(plugin)
        if info.state is PluginState.DISABLED:
            raise InstallRefused(f"{plugin} is disabled, so it is not loaded: enable it")
        await self._registry.reload(info.item)
        return self.info(info.item)

    def _own(self, plugin: str) -> PluginInfo:
        info = self.info(plugin)
        if info.item.startswith("builtin/"):
            raise InstallRefused(
                f"{info.item} came with the bot and cannot be removed: disable it instead"
            )
        return info

    def _change(self, before: PluginInfo, *, changed: bool = True) -> PluginChange:
        return PluginChange(
            item=before.item, info=self.info(before.item), before=before.version, changed=changed
        )

    def _listed(self, infos: tuple[PluginInfo, ...]) -> tuple[ManagedPlugin, ...]:
        installed = InstallRecords(self._data_dir).all()
        return tuple(self._managed(info, installed.get(info.item)) for info in infos)

    def _managed(self, info: PluginInfo, record: InstalledPlugin | None) -> ManagedPlugin:
        if record is None:
            return ManagedPlugin(info=info, builtin=info.item.startswith("builtin/"))
        return ManagedPlugin(
            info=info,
            builtin=False,
            source=str(record.source),
            installed=record.at,
            commit=record.commit,
            versions=OldVersions(self._data_dir).of(info.item),
        )

    async def _in_thread(
        self, work: Callable[[ReceivingInstaller], Result], progress: Progress
    ) -> Result:
        follower = _ThisBot(self._registry, self._data_dir)
        told = _Told(progress)
        installer = ReceivingInstaller(
            data_dir=self._data_dir,
            shelf=self._shelf,
            ask=lambda _: True,
            say=told.say,
            settings=self._settings,
            preflight=self._preflight,
            check=self._check,
            follower=follower,
            reach=told.reach,
        )
        return await anyio.to_thread.run_sync(work, installer)


class _Told:
    """Passes the lines and stages that an installer reports from its thread to the event loop."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage = InstallStage.FETCH

    def say(self, text: str) -> None:
        self._pass_on(InstallStep(stage=self._stage, text=text))

    def reach(self, stage: InstallStage) -> None:
        self._stage = stage
        self._pass_on(InstallStep(stage=stage))

    def _pass_on(self, step: InstallStep) -> None:
        anyio.from_thread.run_sync(self._progress, step)


class _ThisBot:
    """The bot of this process, for an installer in a worker thread."""

    def __init__(self, registry: PluginRegistry, data_dir: Path) -> None:
        self._registry = registry
        self._data_dir = data_dir

    def suspend(self, item: str) -> None:
        """See `BotFollower.suspend`."""
        anyio.from_thread.run(self._suspend, item)

    def resume(self, item: str) -> str:
        """See `BotFollower.resume`."""
        return anyio.from_thread.run(self._resume, item)

    async def _suspend(self, item: str) -> None:
        with anyio.CancelScope(shield=True):
            await self._registry.suspend(item)

    async def _resume(self, item: str) -> str:
        with anyio.CancelScope(shield=True):
            info = await self._registry.resume(item)
        if info is None or info.state is not PluginState.BROKEN:
            return ""
        errors = [each for each in info.problems if each.severity is ProblemSeverity.ERROR]
        return "; ".join(map(str, errors or info.problems))


def _rolled_back(installer: Installer, *, name: str, number: int | None) -> str:
    return installer.roll_back(name, number)
