"""Packs the files of an installed plugin into an archive, and unpacks an archive that came from
another process of the cluster.

The archives are in a folder below the data folder. A process needs an archive to give the plugin to
the others. It makes the archive when it installs the plugin: later the plugin may have changed its
own files.
"""

import hashlib
import json
import stat
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from nekro_core.plugins.installation.files import FilesRefused, digests
from nekro_core.plugins.installation.proposal import digest_of
from nekro_core.plugins.installation.unpack import unpack
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.thread_cancellation import stop_if_cancelled

FOLDER = "plugin_archives"
"""The name of the folder below the data folder."""
AGREED_FILE = "plugins.shared.json"
"""The file that says which versions of plugins and which switches this data folder and the database
had in common when they were last compared. A data folder without it belongs to no process of a
cluster, and no archives are kept in it."""
_DATA_REMOVED = "plugins.data_removed.json"
"""The file with the items of plugins that were removed with their data, until the other processes
are told."""
_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all files in an archive. With it, the same files always give the same archive."""
_PIECE = 1 << 20


def belongs_to_cluster(data_dir: Path) -> bool:
    """Return whether the data folder belongs to a process of a cluster."""
    return (data_dir / AGREED_FILE).exists()


class PluginArchives:
    """The archives of one data folder. An archive is named after the mark of its files, which is
    `digest_of` their names and digests. All methods block."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER

    def path(self, mark: str) -> Path:
        """Return the path of an archive. It need not exist."""
        return self._folder / f"{mark}.zip"

    def pack(self, plugin: Path, files: Mapping[str, str]) -> Path:
        """Make the archive of a plugin, if it does not exist yet. ``files`` has the digest of each
        file by path. Raises `FilesRefused` if a file has another digest or is gone, and
        `OSError`."""
        target = self.path(digest_of(files))
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = target.with_name(f".{target.name}.new")
        try:
            with zipfile.ZipFile(fresh, "w", zipfile.ZIP_STORED) as archive:
                for name, digest in sorted(files.items()):
                    stop_if_cancelled()
                    path = plugin if plugin.is_file() else plugin / name
                    _add(archive, name, path, digest)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
        return target

    def trim(self, marks: Collection[str]) -> None:
        """Delete all archives except those with these marks."""
        for path in self._folder.glob("*.zip"):
            if path.stem not in marks:
                path.unlink(missing_ok=True)


def unpack_plugin(archive: Path, target: Path, files: Mapping[str, str]) -> Path:
    """Unpack the archive of a plugin into the new folder ``target``. Returns the plugin's file or
    folder. ``files`` has the digest that each file must have, by path.

    Raises `FilesRefused` if the archive has other files, if one of them leads out of the folder, or
    if it has more files or bytes than a plugin may have.
    """
    unpack(archive, target)
    found = digests(target)
    every = {path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir()}
    if found != dict(files) or every != {*found}:
        raise FilesRefused(f"{archive.name}: it has other files than its row in the database says")
    single = len(found) == 1 and next(iter(found)).endswith(".py")
    if single and "__init__.py" not in found:
        return target / next(iter(found))
    return target


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex; empty if there is no such file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def note_data_removed(data_dir: Path, items: Iterable[str]) -> None:
    """Replace the stored list of the plugins that were removed with their data."""
    write_whole(data_dir / _DATA_REMOVED, json.dumps(sorted(items)).encode())


def removed_with_data(data_dir: Path) -> frozenset[str]:
    """Return which plugins were removed with their data, as `note_data_removed` stored it."""
    try:
        found = msgspec.json.decode((data_dir / _DATA_REMOVED).read_bytes(), type=frozenset[str])
    except (OSError, msgspec.MsgspecError):
        return frozenset()
    return found


def _add(archive: zipfile.ZipFile, name: str, path: Path, digest: str) -> None:
    """Add a file to an archive. Raises `FilesRefused` if it is gone, is no file, or does not have
    this digest."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise FilesRefused(f"{name}: expected a file")
        with path.open("rb") as file:
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o600 << 16
            entry.create_system = 3  # Unix, whatever the system
            entry.file_size = path.stat().st_size
            came = hashlib.sha256()
            with archive.open(entry, "w") as packed:
                while piece := file.read(_PIECE):
                    came.update(piece)
                    packed.write(piece)
    except FileNotFoundError:
        raise FilesRefused(f"{name} is gone since it was installed") from None
    if came.hexdigest() != digest:
        raise FilesRefused(f"{name} was changed since it was installed")
