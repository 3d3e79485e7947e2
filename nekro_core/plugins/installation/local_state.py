"""Reads which plugins a data folder has, for comparison with the plugins of the other processes of
a cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nekro_core.plugins.host.file_moves import NOTE_NAME
from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.host.switches import FILE_NAME as SWITCHES
from nekro_core.plugins.host.switches import PluginSwitches
from nekro_core.plugins.installation.archives import AGREED_FILE, PluginArchives
from nekro_core.plugins.installation.installed import FILE_NAME as RECORDS
from nekro_core.plugins.installation.installed import (
    InstalledPlugin,
    InstallRecords,
    lying_plugins,
    recover_interrupted,
)
from nekro_core.plugins.installation.proposal import digest_of
from nekro_core.plugins.installation.versions import OldVersions
from nekro_core.system.atomic_files import write_whole


class PluginStatus(msgspec.Struct, frozen=True):
    """Which files of a plugin are installed, and whether the plugin is switched on. ``mark`` is
    `digest_of` the files; empty if the plugin is not installed, and for a built-in plugin."""

    mark: str = ""
    wanted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlugins:
    """The plugins of a data folder.

    Attributes:
        records: The records of the installed plugins, by item.
        off: The keys of the plugins that are switched off, by item.
        by_hand: The plugins that were put into the folder without an installation, by item.
        agreed: What the folder and the database had in common when they were last compared.
    """

    records: Mapping[str, InstalledPlugin]
    off: Mapping[str, str]
    by_hand: Mapping[str, Path]
    agreed: Mapping[str, PluginStatus]

    def status(self, item: str) -> PluginStatus:
        """Return the present status of a plugin."""
        record = self.records.get(item)
        return PluginStatus(digest_of(record.files) if record else "", item not in self.off)


def read_local(data_dir: Path) -> LocalPlugins | None:
    """Read the plugins of a data folder. Returns None while a command changes them. Blocks. Raises
    `OSError`."""
    note = data_dir / NOTE_NAME
    if note.exists():
        recover_interrupted(data_dir)  # Does nothing while the command runs.
    if note.exists():
        return None
    records = InstallRecords(data_dir).all()
    found = LocalPlugins(
        records=records,
        off=PluginSwitches(data_dir).off,
        by_hand=lying_plugins(data_dir, records),
        agreed=_read_agreed(data_dir),
    )
    return None if note.exists() else found


def folder_stamp(data_dir: Path) -> tuple[tuple[int, int], ...]:
    """Return values that change when plugins are installed, switched or removed. Blocks."""
    names = (RECORDS, SWITCHES, LOCAL_FOLDER, NOTE_NAME)
    return tuple(_stamp(data_dir / name) for name in names)


def write_agreed(data_dir: Path, agreed: Mapping[str, PluginStatus]) -> None:
    """Store what the folder and the database have in common. Blocks. Raises `OSError`."""
    write_whole(data_dir / AGREED_FILE, msgspec.json.format(msgspec.json.encode(agreed)))


def trim_archives(data_dir: Path) -> None:
    """Delete the archives that belong neither to an installed nor to an old version of a plugin.
    Blocks."""
    records = InstallRecords(data_dir).all()
    kept = {digest_of(each.files) for each in records.values()} | _old_marks(data_dir, records)
    PluginArchives(data_dir).trim(kept)


def _old_marks(data_dir: Path, items: Iterable[str]) -> set[str]:
    versions = OldVersions(data_dir)
    return {digest_of(old.record.files) for item in items for old in versions.of(item)}


def _read_agreed(data_dir: Path) -> Mapping[str, PluginStatus]:
    try:
        data = (data_dir / AGREED_FILE).read_bytes()
        return msgspec.json.decode(data, type=dict[str, PluginStatus])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_ino)
