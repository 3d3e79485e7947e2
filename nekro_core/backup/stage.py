"""Unpacks a checked backup into a new folder, and puts this folder in place of the data folder.

Nothing in the data folder is changed before all files are unpacked and checked.
"""

import io
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, Self

from nekro_core.backup.archive_reader import BackupArchive
from nekro_core.backup.contents import Part, part_of
from nekro_core.backup.errors import InvalidBackup, RestoreRefused
from nekro_core.backup.make import ENVIRONMENT
from nekro_core.backup.manifest import (
    DATA,
    MANIFEST,
    POSTGRES,
    SQLITE,
    Manifest,
    check_path,
    decode_manifest,
    encode_manifest,
)
from nekro_core.backup.postgres_copy import check_dump
from nekro_core.backup.progress import BackupWork
from nekro_core.store import StoreUnavailable
from nekro_core.store.engines import is_postgres
from nekro_core.store.file_copy import integrity_problem
from nekro_core.store.upgrade import newest_migration
from nekro_core.system.atomic_files import write_whole

DATABASE_NAME = "nekro.sqlite3"
"""The name of the database file in a restored data folder."""

_STAGED = re.compile(r"^\..*-restore-[^/]+$")
_KEPT_FREE = 64 * 1024 * 1024
_MOST_SECRETS = 64 * 1024 * 1024
_CARRIED = ("backups", "models", "logs")
"""Folders that are moved from the present data folder into the restored one. Backups do not contain
them."""
_OWN = (".gitkeep", ".gitignore", "nekro.lock")
"""A data folder that has only these files counts as empty."""


class StagedRestore:
    """An unpacked backup in a folder of its own, beside the data folder.

    Attributes:
        folder: The folder that contains all unpacked files.
        data: The new data folder, in ``folder``.
        settings: The folder with the ``.env`` files of the backup, if it contains any.
        manifest: The list of contents.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.settings = folder / "env"
        self.manifest = manifest

    @property
    def dump(self) -> Path:
        """The file for ``pg_restore``, if the database is on PostgreSQL."""
        return self.folder / "database.dump"

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return what an earlier process unpacked. Raises `RestoreRefused`."""
        try:
            manifest = decode_manifest((folder / MANIFEST).read_bytes())
        except (OSError, InvalidBackup) as error:
            raise RestoreRefused(f"the unpacked backup in {folder} is not whole: {error}") from None
        return cls(folder, manifest)

    def discard(self) -> None:
        """Delete the unpacked files that were not moved elsewhere."""
        discard_staged(self.folder)


def discard_staged(folder: Path) -> None:
    """Delete a folder of unpacked files. A folder whose name does not match `_STAGED` is not
    deleted."""
    if _STAGED.search(folder.name):
        shutil.rmtree(folder, ignore_errors=True)


def check_backup(path: Path, work: BackupWork) -> Manifest:
    """Check everything in a backup: the list of contents, each file, and the database. Raises
    `InvalidBackup`, `BackupTooNew`, `BackupCancelled`, `RestoreRefused` (pg_restore is missing) and
    `OSError`."""
    with BackupArchive.open(path) as archive:
        archive.check(work)
        with tempfile.TemporaryDirectory(prefix="nekro-check-") as folder:
            place = Path(folder) / "database"
            _unpack_database(archive, place, place, work)
        return archive.manifest


def stage_restore(
    path: Path,
    target: Path,
    work: BackupWork,
    *,
    database_url: str,
    passphrase: str | None = None,
) -> StagedRestore:
    """Check a backup and unpack it beside ``target``, the data folder. The caller must discard the
    result.

    Without a passphrase the secrets are not unpacked. ``database_url`` says to which kind of
    database the backup must belong. This function blocks; call it in a thread. Raises
    `InvalidBackup`, `BackupTooNew`, `WrongPassphrase`, `RestoreRefused`, `BackupCancelled` and
    `OSError`; then nothing was changed.
    """
    with BackupArchive.open(path) as archive:
        manifest = archive.manifest
        _check_engine(manifest, database_url)
        _check_space(manifest, target)
        archive.check(work)
        secrets: Mapping[str, bytes] = {}
        if passphrase is not None and manifest.has_secrets:
            secrets = _unpacked_secrets(archive.decrypt_secrets(passphrase))
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-restore-", dir=target.parent))
        staged = StagedRestore(folder, manifest)
        try:
            _unpack(archive, staged, secrets, work)
        except BaseException:
            staged.discard()
            raise
        return staged


def is_empty(folder: Path) -> bool:
    """Return whether a data folder is missing or has no data. Raises `OSError`."""
    if not folder.exists():
        return True
    return all(each.name in _OWN for each in folder.iterdir())


def take_place(staged: Path, target: Path, now: float) -> tuple[Path | None, list[str]]:
    """Put an unpacked data folder in place of ``target``. If the backup has no secrets, the present
    secrets are kept.

    Return the folder to which the present data folder was moved, None if it was empty and is gone;
    and a sentence for each thing that did not work after the restored folder was in place. Raises
    `RestoreRefused`; then nothing was changed, or the text says where the present data is."""
    if not target.exists():
        _rename(staged, target, target)
        return None, []
    aside = target.with_name(f"{target.name}-before-restore-{_stamp(now)}")
    if aside.exists():
        raise RestoreRefused(f"{aside} exists already: try again in a second")
    try:
        _carry_files(staged, target)
        empty = is_empty(target)
    except OSError as error:
        raise RestoreRefused(
            f"the files of {target} cannot be copied, and nothing was changed: {error}"
        ) from error
    _rename(target, aside, target)
    try:
        staged.rename(target)
    except OSError as error:
        _put_back(aside, target, error)
    # The restored folder is in place. What fails now is told, and does not end the restore.
    if empty:
        try:
            shutil.rmtree(aside)
        except OSError as error:
            return aside, [f"the empty folder {aside} cannot be deleted: {error}"]
        return None, []
    return aside, _carry_folders(aside, target)


def _rename(source: Path, destination: Path, target: Path) -> None:
    """Rename a folder, as the first change of a restore. Raises `RestoreRefused` if this fails;
    then nothing was changed. ``target`` is the data folder that the error's text names."""
    try:
        source.rename(destination)
    except OSError as error:
        raise _not_replaced(target, error) from error


def _put_back(aside: Path, target: Path, error: OSError) -> NoReturn:
    """Move the present data folder back, because the restored one cannot take its place. Raises
    `RestoreRefused`."""
    try:
        aside.rename(target)
    except OSError as second:
        raise RestoreRefused(
            f"{target} cannot be replaced: {error}. The data that was there is now in {aside} and "
            f"cannot be moved back: {second}. Rename {aside} to {target}"
        ) from error
    raise _not_replaced(target, error) from error


def _not_replaced(target: Path, error: OSError) -> RestoreRefused:
    return RestoreRefused(
        f"{target} cannot be replaced, and nothing was changed: {error.strerror}. If it is a mount "
        "point, restore into a folder inside of it, and name that folder in NEKRO_DATA_DIR"
    )


def _carry_folders(aside: Path, target: Path) -> list[str]:
    """Move the folders that backups do not contain from the earlier data folder into the restored
    one. Return a sentence for each that cannot be moved."""
    said = []
    for name in _CARRIED:
        try:
            if (aside / name).exists() and not (target / name).exists():
                (aside / name).rename(target / name)
        except OSError as error:
            said.append(
                f"{aside / name} cannot be moved to {target / name}: {error.strerror}. Move it by "
                "hand"
            )
    return said


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")


def _carry_files(staged: Path, target: Path) -> None:
    """Copy files that the new folder needs from the present data folder. These are the files that
    Git keeps in a data folder, and the secrets that are not in the backup."""
    for name in _OWN[:2]:
        if (target / name).is_file():
            shutil.copy2(target / name, staged / name)
    for path in sorted(target.rglob("*")):
        inside = path.relative_to(target)
        if inside.parts[0] not in ("secrets", "matrix") or not path.is_file():
            continue
        if part_of(inside.as_posix()) is Part.SECRET and not (staged / inside).exists():
            (staged / inside).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy2(path, staged / inside)


def _check_engine(manifest: Manifest, database_url: str) -> None:
    wanted = "postgres" if is_postgres(database_url) else "sqlite"
    if manifest.engine != wanted:
        names = {"sqlite": "an SQLite file", "postgres": "PostgreSQL"}
        raise RestoreRefused(
            f"the backup is of {names[manifest.engine]}, and NEKRO_DATABASE_URL names "
            f"{names[wanted]}: a backup can only be restored to the same kind of database"
        )


def _check_space(manifest: Manifest, target: Path) -> None:
    place = target.parent
    while not place.exists():
        place = place.parent
    # Count the database three times in total: a newer version of the bot migrates a copy of the
    # file and, on a file system without hard links, makes a second copy to keep the old tables.
    needed = manifest.size + 2 * manifest.sized(SQLITE) + _KEPT_FREE
    free = shutil.disk_usage(place).free
    if free < needed:
        raise RestoreRefused(
            f"the backup needs {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free on the "
            f"disk of {target}: free some space, or restore it into a folder on another disk"
        )


def _unpack(
    archive: BackupArchive, staged: StagedRestore, secrets: Mapping[str, bytes], work: BackupWork
) -> None:
    data = staged.data
    data.mkdir(mode=0o700)
    work.begin("restore", archive.manifest.size)
    _unpack_database(archive, data / DATABASE_NAME, staged.dump, work)
    for member in archive.manifest.members:
        if member.name.startswith(DATA):
            archive.unpack(member, data / member.name.removeprefix(DATA), work)
    for name, content in secrets.items():
        if name.startswith(ENVIRONMENT):
            path = staged.settings / name.removeprefix(ENVIRONMENT)
        else:
            path = data / name.removeprefix(DATA)
        write_whole(path, content)
    write_whole(staged.folder / MANIFEST, encode_manifest(archive.manifest))


def _unpack_database(archive: BackupArchive, file: Path, dump: Path, work: BackupWork) -> None:
    """Unpack and check the database, to ``file`` or, for pg_restore, to ``dump``."""
    members = {member.name: member for member in archive.manifest.members}
    if POSTGRES in members:
        archive.unpack(members[POSTGRES], dump, work)
        check_dump(dump)
        return
    archive.unpack(members[SQLITE], file, work)
    if problem := integrity_problem(file):
        raise InvalidBackup(f"the database in the backup is damaged: {problem}")
    try:
        schema = newest_migration(file)
    except StoreUnavailable as error:
        raise InvalidBackup(f"the database in the backup is not the bot's: {error}") from None
    if schema != archive.manifest.schema:
        raise InvalidBackup("the database in the backup is not of the version that it says")


def _unpacked_secrets(data: bytes) -> Mapping[str, bytes]:
    """Return the files of the decrypted part. They are checked too: the person who wrote them knew
    the passphrase, but is not trusted."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(info.file_size for info in packed.infolist()) > _MOST_SECRETS:
                raise InvalidBackup("the secrets in the backup are too large")
            for info in packed.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                name = info.filename
                inside = name.removeprefix(DATA).removeprefix(ENVIRONMENT)
                check_path(inside)
                is_env = name.startswith(f"{ENVIRONMENT}.env") and "/" not in inside
                if kind not in (0, stat.S_IFREG) or not (name.startswith(DATA) or is_env):
                    raise InvalidBackup(f"the secrets have an unexpected file: {name[:200]!r}")
                found[name] = packed.read(info)
    except (zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, EOFError) as error:
        raise InvalidBackup(f"the secrets in the backup are damaged: {error}") from error
    return found
