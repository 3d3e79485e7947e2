"""Lists, names and deletes the backups in ``data/backups``."""

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nekro_core.backup.errors import BackupRefused

FOLDER = "backups"
"""The folder of the backups, in the data folder. Only its owner can read it."""

_NAME = re.compile(r"(nekro|uploaded)-\d{8}-\d{6}(-\d+)?\.zip")
_COMING = ".coming-"
"""The beginning of the names of files that are being received."""
_LOCK = ".making"
_LATEST = 4e9
"""A time, in seconds since 1970, that every file system can store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnBackup:
    """A backup in ``data/backups``. ``made`` is in seconds since 1970, ``size`` in bytes."""

    name: str
    path: Path
    made: float
    size: int


class OwnBackups:
    """The backups in the folder of a data folder."""

    def __init__(self, data: Path) -> None:
        self.folder = data / FOLDER

    def list(self) -> tuple[OwnBackup, ...]:
        """Return the backups, newest first. Raises `OSError`."""
        found = []
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if _NAME.fullmatch(path.name) and path.is_file():
                    status = path.stat()
                    found.append(
                        OwnBackup(
                            name=path.name,
                            path=path,
                            made=status.st_mtime,
                            size=status.st_size,
                        )
                    )
        return tuple(sorted(found, key=lambda backup: (backup.made, backup.name), reverse=True))

    def get(self, name: str) -> OwnBackup:
        """Return the backup with this name. Raises `BackupRefused` if there is none."""
        for backup in self.list():
            if backup.name == name:
                return backup
        raise BackupRefused(
            f"there is no backup {name[:100]!r}; the list of backups has the names of all"
        )

    def delete(self, name: str) -> None:
        """Delete a backup. Raises `BackupRefused` if there is none, and `OSError`."""
        self.get(name).path.unlink(missing_ok=True)

    def free_path(self, now: float, *, kind: str = "nekro") -> Path:
        """Make the folder, and return the path for a new backup that is made now. ``kind`` is
        ``nekro`` or ``uploaded``."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        path, number = self.folder / f"{kind}-{stamp}.zip", 1
        while path.exists():
            number += 1
            path = self.folder / f"{kind}-{stamp}-{number}.zip"
        return path

    def new_upload(self) -> Path:
        """Make an empty file for a backup that will be received. Delete incomplete files that an
        earlier process has left. Raises `OSError`."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in self.folder.glob(f"{_COMING}*"):
            path.unlink(missing_ok=True)
        file, name = tempfile.mkstemp(prefix=_COMING, dir=self.folder)
        os.close(file)
        return Path(name)

    def keep_upload(self, received: Path, made: float) -> OwnBackup:
        """Put a received and checked file into the list. ``made`` is when the backup was made, in
        seconds since 1970. Raises `OSError`."""
        made = min(max(made, 0.0), _LATEST)
        path = self.free_path(made, kind="uploaded")
        os.utime(received, (made, made))
        received.rename(path)
        return OwnBackup(name=path.name, path=path, made=made, size=path.stat().st_size)

    def delete_old(self, keep: int) -> tuple[str, ...]:
        """Delete all backups that this bot made except the newest ``keep``. Uploaded backups are
        not deleted. Return the names of the deleted backups."""
        own = [each for each in self.list() if not each.name.startswith("uploaded")]
        old = own[keep:]
        for backup in old:
            backup.path.unlink(missing_ok=True)
        return tuple(backup.name for backup in old)


@contextmanager
def one_at_a_time(data: Path) -> Iterator[None]:
    """Hold a lock, so that only one backup of a data folder is made at a time. Raises
    `BackupRefused`."""
    folder = data / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BackupRefused("another backup is being made now: wait for it") from None
    else:
        yield
    finally:
        os.close(file)
