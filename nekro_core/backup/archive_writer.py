"""Writes the zip file of a backup, member by member, without holding a file in memory."""

import errno
import hashlib
import os
import stat
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from nekro_core.backup.errors import BackupError
from nekro_core.backup.manifest import MANIFEST, Manifest, Member, encode_manifest
from nekro_core.backup.progress import BackupWork

PIECE = 1024 * 1024
_LEVEL = 3
"""zlib's level. Level 6 makes the file 5 % smaller and takes twice as long."""
_PACKED = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".mp4", ".mp3", ".ogg", ".zip", ".gz", ".dump")
"""Endings of files that are already compressed, so that they are stored without compression."""


class FileVanished(BackupError):
    """The file was deleted or replaced by something else before it was read. `nekro_core.backup`
    catches this error itself."""


class ArchiveWriter:
    """Writes one new archive that only its owner can read. Use it as a context manager. The file is
    a backup only after `finish`."""

    def __init__(self, path: Path, work: BackupWork) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._zip = zipfile.ZipFile(
            self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL, strict_timestamps=False
        )
        self._work = work
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # If the work failed, close the file without the end of a zip file, since the caller
            # deletes it.
            if not self._file.closed:
                self._zip.fp = None
        finally:
            self._file.close()

    def add_file(self, name: str, path: Path) -> None:
        """Add a file. If the file grows meanwhile, only the bytes that it had at the beginning are
        added. Raises `FileVanished`, `OSError` and `BackupCancelled`."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileVanished(str(error)) from None
        except OSError as error:
            # A link is refused with ELOOP, a socket with ENXIO.
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise FileVanished(f"{path} is no file") from None
            raise
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileVanished(f"{path} is no file")
            left = status.st_size

            def pieces() -> Iterable[bytes]:
                nonlocal left
                while left and (piece := file.read(min(PIECE, left))):
                    left -= len(piece)
                    yield piece

            self._add(
                name,
                pieces(),
                modified=status.st_mtime,
                executable=bool(status.st_mode & stat.S_IXUSR),
            )

    def add_pieces(self, name: str, pieces: Iterable[bytes], *, modified: float) -> None:
        """Add a member with this content. ``modified`` is in seconds since 1970."""
        self._add(name, pieces, modified=modified, executable=False)

    def finish(self, manifest: Manifest) -> None:
        """Add the list of contents, and end and sync the file."""
        self._zip.writestr(MANIFEST, encode_manifest(manifest))
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _add(
        self, name: str, pieces: Iterable[bytes], *, modified: float, executable: bool
    ) -> None:
        digest, size = hashlib.sha256(), 0
        packed = name.endswith(_PACKED)
        self._zip.compression = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
        with self._zip.open(name, "w", force_zip64=True) as member:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                member.write(piece)
                self._work.advance(len(piece))
        self.members.append(
            Member(
                name=name,
                size=size,
                sha256=digest.hexdigest(),
                modified=modified,
                executable=executable,
            )
        )
