"""Stores the source of each installed plugin and the digests of its files, in one file of the data
folder."""

import time
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from nekro_core.plugins.host.file_moves import clear_note, is_lost, recover_interrupted_move
from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.installation.files import FilesRefused, changes, digests
from nekro_core.plugins.installation.inspection import MANIFEST
from nekro_core.plugins.installation.own_writes import GONE
from nekro_core.plugins.installation.sources import Kind, PluginSource
from nekro_core.system.atomic_files import write_whole

FILE_NAME = "plugins.installed.json"


class InstalledPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an installed plugin. ``at`` is the time of the installation in seconds since
    1970, ``files`` has the SHA-256 of each file by path."""

    path: str
    key: str
    version: str
    kind: Kind
    address: str
    ref: str = ""
    commit: str = ""
    at: float = 0.0
    files: dict[str, str] = {}

    @property
    def source(self) -> PluginSource:
        """The source from which the plugin was installed."""
        return PluginSource(self.kind, self.address, self.ref)


class InstallRecords:
    """Reads and writes the records of installed plugins. The file is read at each use, because
    another process may have changed it."""

    def __init__(self, data_dir: Path) -> None:
        self._data = data_dir
        self._path = data_dir / FILE_NAME

    def all(self) -> Mapping[str, InstalledPlugin]:
        """Return the records of all installed plugins, by item name. Empty if the file does not
        exist or is invalid."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, InstalledPlugin])
        except (OSError, msgspec.MsgspecError):
            return {}

    def put(self, item: str, record: InstalledPlugin | None) -> None:
        """Store the record of an installed plugin. None deletes the record."""
        every = {**self.all(), item: record}
        kept = {key: value for key, value in every.items() if value is not None}
        write_whole(self._path, msgspec.json.format(msgspec.json.encode(kept)))

    def changed_since(self, item: str) -> list[str]:
        """Return one line for each file that has changed since the installation; nothing for a
        plugin without a record."""
        record = self.all().get(item)
        if record is None:
            return []
        place = self._data / LOCAL_FOLDER / record.path
        try:
            return changes(record.files, digests(place)) if place.exists() else [GONE]
        except (OSError, FilesRefused) as error:
            return [str(error)]


def lying_plugins(data_dir: Path, known: Collection[str]) -> dict[str, Path]:
    """Return the plugins in the bot's folder whose item names are not in ``known``, by item
    name."""
    folder = data_dir / LOCAL_FOLDER
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        is_file = path.suffix == ".py" and path.is_file()
        is_folder = (path / "__init__.py").is_file() or (path / MANIFEST).is_file()
        item = f"local/{path.stem if is_file else path.name}"
        if (is_file or is_folder) and not path.name.startswith((".", "_")) and item not in known:
            found[item] = path
    return found


def install_record(
    source: PluginSource, place: Path, files: dict[str, str], *, key: str, version: str, commit: str
) -> InstalledPlugin:
    """Make the record of a plugin. ``place`` is the path of its files after the installation,
    ``files`` are their digests."""
    return InstalledPlugin(
        path=place.name,
        key=key,
        version=version,
        kind=source.kind,
        address=source.address,
        ref=source.ref,
        commit=commit,
        at=time.time(),
        files=files,
    )


def recover_interrupted(data_dir: Path) -> None:
    """Finish or undo a change that a killed command has begun, and update the records. Raises
    `OSError`."""
    plan = recover_interrupted_move(data_dir)
    if plan is None:
        return
    record = msgspec.json.decode(plan.record, type=InstalledPlugin | None)
    records = InstallRecords(data_dir)
    there = (data_dir / plan.place).exists()
    if record and there and (plan.came or plan.item not in records.all()):
        records.put(plan.item, record)
    elif is_lost(data_dir, plan):
        records.put(plan.item, None)
    clear_note(data_dir)
