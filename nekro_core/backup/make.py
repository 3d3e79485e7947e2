"""Makes a backup of a data folder. The bot may run meanwhile."""

import io
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nekro_core import __version__
from nekro_core.backup.archive_reader import BackupArchive
from nekro_core.backup.archive_writer import ArchiveWriter, FileVanished
from nekro_core.backup.config_secrets import LARGEST, is_configuration, without_secrets
from nekro_core.backup.contents import FoundFile, Part, find_files
from nekro_core.backup.encryption import encrypt
from nekro_core.backup.errors import BackupRefused
from nekro_core.backup.manifest import (
    DATA,
    ENGINES,
    FORMAT,
    SECRETS,
    Manifest,
    may_be_named,
    without_doubles,
)
from nekro_core.backup.object_files import ObjectFiles
from nekro_core.backup.own_archives import OwnBackups, one_at_a_time
from nekro_core.backup.postgres_copy import dump_postgres
from nekro_core.backup.progress import BackupWork
from nekro_core.store import StoreUnavailable
from nekro_core.store.engines import is_postgres
from nekro_core.store.file_copy import copy_sqlite, is_sqlite
from nekro_core.store.upgrade import known_migrations, newest_migration

ENVIRONMENT = "env/"
"""The beginning of the names of the ``.env`` files in the encrypted part."""

_KEPT_FREE = 64 * 1024 * 1024
"""Number of bytes that a backup leaves free on the disk, for the running bot."""
_MOST_SECRETS = 64 * 1024 * 1024
"""Maximum size in bytes of all secrets together. They are encrypted in memory, so that they are not
written to the disk a second time."""
_LEFT_OUT = ("documents",)
"""Tables whose rows are not in a backup. The documents in the database contain secrets, and the
data folder has copies of them as files. The first start after a restore reads these files."""
_WORKING = ".nekro-backup-"
_DUMP_GUESS = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSource:
    """The data of which a backup is made.

    Attributes:
        data: The data folder.
        database_url: The URL of the database.
        settings: The ``.env`` files. They are in the encrypted part.
        objects: The files in the object store of a cluster; None if the bot is one process.
    """

    data: Path
    database_url: str
    settings: tuple[Path, ...] = ()
    objects: ObjectFiles | None = None

    @property
    def sqlite_file(self) -> Path | None:
        """The SQLite file; None if the database is on a PostgreSQL server."""
        if is_postgres(self.database_url):
            return None
        return Path(self.database_url.partition("://")[2].partition("?")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupMade:
    """A backup that was written and checked."""

    path: Path
    size: int
    manifest: Manifest


def make_backup(
    source: BackupSource,
    target: Path,
    work: BackupWork,
    *,
    passphrase: str | None = None,
    wall: Callable[[], float] = time.time,
) -> BackupMade:
    """Write a backup to a new file, and check it by reading it again.

    This function blocks; call it in a thread. With a passphrase, the backup also contains the
    secrets, encrypted. The file ``target`` appears only when it is complete. Raises
    `BackupRefused`, `BackupCancelled` and `OSError`; then no file is left.
    """
    if target.exists():
        raise BackupRefused(f"{target} exists already: give another name, or delete it")
    if not target.parent.is_dir():
        raise BackupRefused(f"the folder {target.parent} does not exist: make it first")
    with one_at_a_time(source.data), _working_folder(target, OwnBackups(source.data)) as folder:
        _check_space(source, folder)
        begun = wall()
        copying = _Copying(source, folder, work, with_secrets=passphrase is not None)
        database, schema = copying.copy_database()
        archive = folder / "backup.zip"
        with ArchiveWriter(archive, work) as writer:
            found = [*find_files(source.data, copying.left_out)]
            size = sum(each.size for each in found) + database.stat().st_size
            work.begin("files", size + _objects_size(source))
            engine: Literal["sqlite", "postgres"] = "sqlite" if source.sqlite_file else "postgres"
            writer.add_file(ENGINES[engine], database)
            database.unlink()
            copying.add_files(writer, found)
            copying.add_objects(writer)
            if passphrase is not None:
                writer.add_pieces(
                    SECRETS, encrypt(copying.packed_secrets(), passphrase), modified=begun
                )
            manifest = Manifest(
                format=FORMAT,
                nekro=__version__,
                schema=schema,
                begun=begun,
                ended=wall(),
                engine=engine,
                folder=str(source.data.absolute()),
                members=tuple(writer.members),
                left_out=without_doubles(copying.left_out),
            )
            writer.finish(manifest)
        with BackupArchive.open(archive) as written:
            written.check(work)
        archive.replace(target)
    return BackupMade(path=target, size=target.stat().st_size, manifest=manifest)


def env_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder whose names begin with ``.env``, sorted by name. The example
    ``.env.example`` is left out."""
    return tuple(
        path
        for path in sorted(folder.glob(".env*"))
        if path.is_file() and path.name != ".env.example"
    )


@contextmanager
def _working_folder(target: Path, own: OwnBackups) -> Iterator[Path]:
    """Make a folder beside the target, on the same disk, and delete it at the end. Folders that
    killed processes left in ``data/backups`` are deleted too."""
    for left in own.folder.glob(f"{_WORKING}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_WORKING, dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_space(source: BackupSource, folder: Path) -> None:
    """Raise `BackupRefused` if the disk has no room for the copy of the database and for a backup
    that is as large as its files, because some files cannot be compressed."""
    file = source.sqlite_file
    if file is not None and not file.is_file():
        raise BackupRefused(f"there is no database {file}: start the bot once")
    database = file.stat().st_size if file else _DUMP_GUESS
    files = sum(each.size for each in find_files(source.data, []))
    needed = 2 * database + files + _objects_size(source) + _KEPT_FREE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BackupRefused(
            f"the backup may need {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free on the "
            f"disk of {folder.parent}: free some space, or write it to another disk"
        )


def _objects_size(source: BackupSource) -> int:
    return source.objects.size() if source.objects is not None else 0


@dataclass(slots=True)
class _Copying:
    """The state while a backup is made."""

    source: BackupSource
    folder: Path
    work: BackupWork
    with_secrets: bool = field(kw_only=True)
    left_out: list[str] = field(default_factory=list)
    secrets: list[tuple[str, bytes]] = field(default_factory=list)

    def copy_database(self) -> tuple[Path, str]:
        """Copy the database. Return the copy and its newest migration. Raises `BackupRefused`."""
        copy, file, work = self.folder / "database", self.source.sqlite_file, self.work
        work.begin("database", 0)
        if file is None:
            dump_postgres(
                self.source.database_url,
                copy,
                lambda done: work.set_done(done, done),
                left_out=_LEFT_OUT,
            )
            # A database on a server has all migrations, because the bot migrates it at its start.
            return copy, known_migrations()[-1]
        try:
            copy_sqlite(file, copy, work.set_done, left_out=_LEFT_OUT)
            schema = newest_migration(copy)
        except StoreUnavailable as error:
            raise BackupRefused(str(error)) from None
        if schema not in known_migrations():
            raise BackupRefused(
                f"{file.name} is at {schema or 'no version'}, this version of the bot ends at "
                f"{known_migrations()[-1]}: make the backup with the version that wrote it"
            )
        return copy, schema

    def add_files(self, writer: ArchiveWriter, found: list[FoundFile]) -> None:
        """Add the files of the data folder. Keep the secrets in memory."""
        for each in found:
            path = self.source.data / each.path
            if path == self.source.sqlite_file:
                continue  # The database was already added.
            if not may_be_named(each.path):
                self.left_out.append(f"{each.path!r}: a name that cannot be stored")
                continue
            if self.source.objects is not None and self.source.objects.covers(each.path):
                continue
            try:
                if not stat.S_ISREG(path.lstat().st_mode):
                    continue  # Replaced by a link or something else since it was found.
                self._add_file(writer, each, path)
            except (FileVanished, FileNotFoundError, NotADirectoryError):
                continue  # Deleted while the backup was made.
            except PermissionError as error:
                self.left_out.append(f"{each.path}: cannot be read: {error.strerror}")
        if not self.with_secrets:
            self.left_out.append("secrets (tokens, keys, .env): only in a backup with secrets")
            return
        for path in self.source.settings:
            self.secrets.append((ENVIRONMENT + path.name, path.read_bytes()))

    def _add_file(self, writer: ArchiveWriter, found: FoundFile, path: Path) -> None:
        if found.part is Part.SECRET:
            if self.with_secrets:
                self.secrets.append((DATA + found.path, path.read_bytes()))
        elif is_configuration(found.path):
            self._add_configuration(writer, found, path)
        elif is_sqlite(path):
            self._add_database(writer, found.path, path)
        elif not _is_beside_database(path):
            writer.add_file(DATA + found.path, path)

    def add_objects(self, writer: ArchiveWriter) -> None:
        """Add the files in the object store, except those whose path has a file already that was
        added from the data folder."""
        if self.source.objects is None:
            return
        written = {member.name for member in writer.members}
        fetched = self.source.objects.fetch(
            self.folder, lambda path: DATA + path in written, self.left_out
        )
        for files in fetched:
            for each in files:
                writer.add_file(DATA + each.path, each.file)
                each.file.unlink()

    def _add_configuration(self, writer: ArchiveWriter, found: FoundFile, path: Path) -> None:
        if found.size > LARGEST:
            self._add_unsearched(found, path)
            return
        name, data = found.path, path.read_bytes()
        modified = path.stat().st_mtime
        plain = without_secrets(name, data)
        if plain is not data:
            self.secrets.append((DATA + name, data))
            if not self.with_secrets:
                how = "the values of keys" if plain is not None else "it may have keys"
                self.left_out.append(f"{name}: {how}; only in a backup with secrets")
        if plain is not None:
            writer.add_pieces(DATA + name, [plain], modified=modified)

    def _add_unsearched(self, found: FoundFile, path: Path) -> None:
        """Add a configuration file that is too large to be searched for secrets. Since it may have
        some, it is only in the encrypted part."""
        if found.size > _MOST_SECRETS:
            why = f"it may have keys and has over {_MOST_SECRETS} bytes; not in any backup"
        elif self.with_secrets:
            self.secrets.append((DATA + found.path, path.read_bytes()))
            return
        else:
            why = f"it may have keys and has over {LARGEST} bytes; only in a backup with secrets"
        self.left_out.append(f"{found.path}: {why}")

    def _add_database(self, writer: ArchiveWriter, name: str, path: Path) -> None:
        """Add a plugin's database. If it cannot be copied as a database, copy its bytes."""
        copy = self.folder / "other"
        copy.unlink(missing_ok=True)
        try:
            copy_sqlite(path, copy, lambda _done, _total: self.work.advance(0))
            writer.add_file(DATA + name, copy)
        except StoreUnavailable as error:
            self.left_out.append(f"{name}: copied as it is, it may be inconsistent: {error}")
            writer.add_file(DATA + name, path)
        copy.unlink(missing_ok=True)

    def packed_secrets(self) -> bytes:
        """Return the secrets as a zip file. Raises `BackupRefused` if they are larger than
        `_MOST_SECRETS`."""
        size = sum(len(data) for _, data in self.secrets)
        if size > _MOST_SECRETS:
            raise BackupRefused(f"the secrets have {size} bytes, expected {_MOST_SECRETS} at most")
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, data in self.secrets:
                packed.writestr(name, data)
        return out.getvalue()


def _is_beside_database(path: Path) -> bool:
    """Return True if a file is the log or the index of a database beside it. The database itself
    was copied, so the file is not needed."""
    for ending in ("-wal", "-shm", "-journal"):
        if path.name.endswith(ending):
            database = path.with_name(path.name.removesuffix(ending))
            return database.is_file() and is_sqlite(database)
    return False
