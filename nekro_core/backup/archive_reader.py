"""Opens and checks the zip file of a backup, and unpacks it.

The file is not trusted: names, sizes and contents are compared with the list of contents, and never
more bytes are unpacked than the list allows.
"""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Self

from nekro_core.backup.encryption import decrypt
from nekro_core.backup.errors import InvalidBackup
from nekro_core.backup.manifest import (
    MANIFEST,
    SECRETS,
    Manifest,
    Member,
    decode_manifest,
)
from nekro_core.backup.progress import BackupWork

_PIECE = 1024 * 1024
_LARGEST_MANIFEST = 64 * 1024 * 1024
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class BackupArchive:
    """An open backup whose list of contents was checked. Use `BackupArchive.open`."""

    def __init__(self, path: Path, opened: zipfile.ZipFile, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._zip = opened

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open a backup and check its list of contents. The files in it are not read yet. Raises
        `InvalidBackup`, `BackupTooNew` and `OSError` (the file cannot be opened)."""
        with path.open("rb") as file:
            with _as_invalid(path):
                opened = zipfile.ZipFile(file)
            with closing(opened):
                with _as_invalid(path):
                    manifest = _read_manifest(opened)
                    _compare(opened, manifest)
                yield cls(path, opened, manifest)

    def check(self, work: BackupWork) -> None:
        """Read every file and compare it with the list of contents. Raises `InvalidBackup` and
        `BackupCancelled`."""
        work.begin("check", self.manifest.size)
        for member in self.manifest.members:
            for piece in self._pieces(member):
                work.advance(len(piece))

    def unpack(self, member: Member, target: Path, work: BackupWork) -> None:
        """Write one file to a path that does not exist yet. Missing folders are made. Raises
        `InvalidBackup`, `BackupCancelled` and `OSError`."""
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = 0o700 if member.executable else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, mode), "wb") as file:
            for piece in self._pieces(member):
                file.write(piece)
                work.advance(len(piece))
        # Limit the time to what every file system can store, so that a wrong time does not stop a
        # restore.
        modified = min(max(member.modified, 0.0), 4e9)
        os.utime(target, (modified, modified))

    def decrypt_secrets(self, passphrase: str) -> bytes:
        """Return the decrypted secrets: a zip file. Raises `WrongPassphrase` and
        `InvalidBackup`."""
        with _as_invalid(self.path), self._zip.open(SECRETS) as source:
            return decrypt(source, passphrase)  # type: ignore[arg-type]

    def _pieces(self, member: Member) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        with _as_invalid(self.path), self._zip.open(member.name) as source:
            while piece := _read(source):
                size += len(piece)
                if size > member.size:
                    break
                digest.update(piece)
                yield piece
        if size != member.size or digest.hexdigest() != member.sha256:
            raise InvalidBackup(
                f"{member.name} in the backup is not what its list of contents says: the backup is "
                "damaged or was changed. Take another one"
            )


def _read(source: IO[bytes]) -> bytes:
    return source.read(_PIECE)


@contextmanager
def _as_invalid(path: Path) -> Iterator[None]:
    """Convert what `zipfile` raises for a damaged file to `InvalidBackup`."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        KeyError,
        IndexError,
        NotImplementedError,
        OverflowError,
        RuntimeError,
        ValueError,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
            raise  # the error is about a file that the caller writes
        raise InvalidBackup(
            f"{path.name} is no whole backup ({error}): it was cut off, damaged or changed. Copy "
            "it again, or take another one"
        ) from error


def _read_manifest(opened: zipfile.ZipFile) -> Manifest:
    try:
        info = opened.getinfo(MANIFEST)
    except KeyError:
        raise InvalidBackup("the file is no backup of this bot: it has no manifest.json") from None
    if info.file_size > _LARGEST_MANIFEST:
        raise InvalidBackup(f"the list of contents is too large: {info.file_size} bytes")
    with opened.open(info) as source:
        return decode_manifest(source.read(_LARGEST_MANIFEST))


def _compare(opened: zipfile.ZipFile, manifest: Manifest) -> None:
    """Compare the zip file's own list with the list of contents. Raises `InvalidBackup`."""
    infos = [info for info in opened.infolist() if info.filename != MANIFEST]
    if len(infos) != len(manifest.members) or len(opened.namelist()) != len(infos) + 1:
        raise InvalidBackup("the backup has other files than its list of contents")
    sizes = {member.name: member.size for member in manifest.members}
    for info in infos:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.filename not in sizes:
            shown = info.filename[:200]
            raise InvalidBackup(f"{shown!r} is in the backup and not in its list of contents")
        if kind not in (0, stat.S_IFREG) or info.is_dir():
            raise InvalidBackup(f"{info.filename[:200]!r} in the backup is no file: a link?")
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
            raise InvalidBackup(f"{info.filename[:200]!r} is packed in an unexpected way")
        if info.file_size != sizes[info.filename]:
            raise InvalidBackup(
                f"{info.filename[:200]!r} has {info.file_size} bytes, its list of contents says "
                f"{sizes[info.filename]}"
            )
