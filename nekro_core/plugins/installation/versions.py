"""Keeps the files that an update replaced, so that the operator can go back to them.

Each old version is a numbered folder below the data folder: ``files`` is the plugin's file or
folder, and ``record.json`` is its record. The record is written before the files are moved there.
So if a folder has no files, its change did not happen, and the folder is deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nekro_core.plugins.host.file_moves import delete
from nekro_core.plugins.installation.installed import InstalledPlugin
from nekro_core.system.atomic_files import write_whole

FOLDER = "plugin_versions"
"""The name of the folder below the data folder."""
KEPT = 3
"""Maximum number of old versions that are kept of each plugin, because a plugin may have 200 MB."""
_RECORD = "record.json"
_FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldVersion:
    """An old version of a plugin. A later version has a higher ``number``; ``files`` is the file or
    folder of the version."""

    number: int
    record: InstalledPlugin
    files: Path


class OldVersions:
    """The old versions of the plugins of one data folder. All methods block."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER

    def of(self, item: str) -> tuple[OldVersion, ...]:
        """Return the old versions of a plugin, the newest first."""
        return tuple(self._all(item))

    def make_place(self, item: str, record: InstalledPlugin) -> Path:
        """Make the folder for a version that will be replaced. ``record`` describes this version.
        Returns the path to which its files must be moved. Raises `OSError`."""
        folder = self._of(item)
        numbers = [int(each.name) for each in folder.glob("[0-9]*") if each.name.isdecimal()]
        place = folder / f"{max(numbers, default=0) + 1:04}"
        write_whole(place / _RECORD, msgspec.json.encode(record))
        return place / _FILES

    def trim(self, item: str) -> None:
        """Delete all old versions except the newest `KEPT`, and the folders of changes that did not
        happen."""
        kept = {each.files.parent for each in self.of(item)[:KEPT]}
        for each in self._of(item).glob("[0-9]*"):
            if each not in kept:
                delete(each)

    def forget(self, item: str) -> None:
        """Delete all old versions of a plugin."""
        delete(self._of(item))

    def _of(self, item: str) -> Path:
        return self._folder / item.partition("/")[2]

    def _all(self, item: str) -> Iterator[OldVersion]:
        for folder in sorted(self._of(item).glob("[0-9]*"), reverse=True):
            files = folder / _FILES
            try:
                data = (folder / _RECORD).read_bytes()
                record = msgspec.json.decode(data, type=InstalledPlugin)
            except (OSError, msgspec.MsgspecError):
                continue
            if files.exists() and folder.name.isdecimal():
                yield OldVersion(number=int(folder.name), record=record, files=files)
