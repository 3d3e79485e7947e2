"""Installs, switches and removes plugins as another process of the cluster has done it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio.to_thread
from packaging.requirements import InvalidRequirement, Requirement

from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.host.switches import PluginSwitches
from nekro_core.plugins.installation.bot_follower import InstallRefused, InstallStage
from nekro_core.plugins.installation.exchange import NewFiles
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.installed import InstalledPlugin
from nekro_core.plugins.installation.own_writes import kept_files
from nekro_core.plugins.installation.packages import PluginNeeds
from nekro_core.plugins.packages.requirements import PluginRequirement

_CONFIGURATION = "config.toml"
"""The file in a plugin's folder whose text is the same in all processes of a cluster; see
`nekro_core.plugins.configuration`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedPlugin:
    """A plugin that another process has installed.

    Attributes:
        item: Its item, ``local/NAME``.
        ready: Its file or folder, on the disk of the data folder, with the files of ``record``. It
            is moved away.
        record: Its record. ``record.path`` is the name of its file or folder.
        needs: The packages that it needs, as requirements.
        configuration: The text of its ``config.toml``, which all processes share; None to keep the
            present one.
    """

    item: str
    ready: Path
    record: InstalledPlugin
    needs: Sequence[str] = ()
    configuration: str | None = None


class PluginReceiver(Protocol):
    """Changes the plugins of this process as another process has changed its own."""

    async def put(self, plugin: ReceivedPlugin) -> None:
        """See `ReceivingInstaller.put`."""

    async def take_away(self, item: str, *, data: bool) -> None:
        """See `ReceivingInstaller.take_away`."""

    async def switch(self, item: str, key: str, *, wanted: bool) -> None:
        """Switch a plugin on or off, even if this process does not have it. Raises `OSError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivingInstaller(Installer):
    """An installer that also installs what another process of the cluster has installed."""

    def put(self, plugin: ReceivedPlugin) -> None:
        """Install a plugin that another process has installed, or replace its files. It is not
        checked again, and it stays even if it cannot be loaded. Data files that the plugin has
        changed here are kept, and the replaced version becomes an old version. If a folder replaces
        a file or a file a folder, the plugin is removed first, with its old versions.

        Raises:
            InstallRefused: A plugin of this name was put here by hand, or ``plugin.item`` and
                ``plugin.record.path`` have different names.
            PackagesRefused: A package cannot be installed.
            OSError: The files cannot be moved.
        """
        self._finish()
        item, record, place = plugin.item, plugin.record, self._plugins / plugin.record.path
        name = item.removeprefix("local/")
        if not name.isidentifier() or record.path not in (name, f"{name}.py"):
            raise InstallRefused(f"{item} cannot be at {record.path!r}: its row is wrong")
        before = self._records.all().get(item)
        if before is None and self._taken(place):
            raise InstallRefused(
                f"{name} was put into {self._plugins} by hand, so it stays, and the plugin of this "
                "name that the other processes have is not installed here: rename or remove it"
            )
        if before is not None and before.path != record.path:
            self.take_away(item, data=False)
            before = None
        needs, earlier = _needs_of(plugin), self._needs_of(item)
        if [str(each.requirement) for each in needs.every] != earlier:
            self.reach(InstallStage.PACKAGES)
            self._get(item, needs)
        kept: list[str] = []
        if before is not None and plugin.ready.is_dir():
            kept = kept_files(before.files, self._here(place), record.files)
        if plugin.configuration is not None and plugin.ready.is_dir():
            (plugin.ready / _CONFIGURATION).write_text(plugin.configuration, "utf-8")
            kept = [each for each in kept if each != _CONFIGURATION]
        with self._staging() as staging:
            new = NewFiles(
                item=item,
                key=record.key,
                ready=plugin.ready,
                place=place,
                staging=staging,
                record=record,
                kept=tuple(kept),
            )
            self._exchange(new, earlier, force=True)

    def take_away(self, item: str, *, data: bool) -> None:
        """Remove a plugin that another process has removed, with ``data`` also its data folder and
        configuration. A plugin that was put here by hand stays. Raises `InstallRefused` and
        `OSError`."""
        self._finish()
        record = self._records.all().get(item)
        if record is not None:
            own = self._own(record.key) if data and record.key else None
            self._remove(item, self._plugins / record.path, record.key, own)


class UnloadedPlugins:
    """Implements `PluginReceiver` for a bot that starts, and has not loaded its plugins yet."""

    def __init__(
        self, data_dir: Path, settings: PluginSettings, say: Callable[[str], None]
    ) -> None:
        self._data_dir = data_dir
        self._installer = ReceivingInstaller(
            data_dir=data_dir,
            shelf=settings.shelf(data_dir),
            ask=lambda _: True,
            say=say,
            settings=settings,
            follower=_NoBot(),
        )

    async def put(self, plugin: ReceivedPlugin) -> None:
        """See `PluginReceiver.put`."""
        await anyio.to_thread.run_sync(self._installer.put, plugin)

    async def take_away(self, item: str, *, data: bool) -> None:
        """See `PluginReceiver.take_away`."""
        await anyio.to_thread.run_sync(partial(self._installer.take_away, item, data=data))

    async def switch(self, item: str, key: str, *, wanted: bool) -> None:
        """See `PluginReceiver.switch`."""
        choose = partial(PluginSwitches(self._data_dir).choose, item, key, wanted=wanted)
        await anyio.to_thread.run_sync(choose)


class _NoBot:
    """Implements `BotFollower` for a bot that has not loaded its plugins yet."""

    def suspend(self, item: str) -> None:
        """See `BotFollower.suspend`."""

    def resume(self, item: str) -> str:
        """See `BotFollower.resume`."""
        del item
        return ""


def _needs_of(plugin: ReceivedPlugin) -> PluginNeeds:
    try:
        every = [PluginRequirement(Requirement(each), plugin.item) for each in plugin.needs]
    except InvalidRequirement as error:
        text = f"{plugin.item} needs a package whose name cannot be read: {error}"
        raise InstallRefused(text) from None
    return PluginNeeds(tuple(every))
