"""The home folder as a tar archive, for what outlives the box on the host's disk."""

from __future__ import annotations

import contextlib
import os
import stat

import guest_files as files

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Iterable

_ENTRIES = 100_000
_LINKED = (files.HOME + "/", "/usr/", "/opt/")
"""Where links that are restored lead: inside, and to the image's own programs, since an environment
that ``python3 -m venv`` makes has such."""


class _Sender:
    """A file that sends what is written to it."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send

    def write(self, data: bytes) -> int:
        self._send(bytes(data))
        return len(data)


class _Receiver:
    """A file that reads from pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._buffer = b""

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._buffer += piece
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def export(send: Callable[[bytes], None], paths: Iterable[str] | None = None) -> None:
    """Send the home folder, or these paths below it, as a tar archive: regular files, folders and
    links."""

    def wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry if entry.isreg() or entry.isdir() or entry.issym() or entry.islnk() else None

    import tarfile  # 15 ms that a box without saved files need not spend

    with (
        files.told_by_path(files.HOME),
        tarfile.open(
            mode="w|", fileobj=_Sender(send), bufsize=files.PIECE, format=tarfile.PAX_FORMAT
        ) as archive,
    ):
        if paths is None:
            archive.add(files.HOME, arcname=".", filter=wanted)
            return
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                full = os.path.join(files.HOME, path)
                archive.add(full, arcname=path, recursive=False, filter=wanted)


def restore(pieces: Iterable[bytes]) -> None:
    """Put an archive's files, folders and inner links back. It may have been made by anyone."""
    import tarfile

    with files.told_by_path("the archive"):
        try:
            with tarfile.open(mode="r|", fileobj=_Receiver(pieces), bufsize=files.PIECE) as archive:
                for count, entry in enumerate(archive):
                    if count > _ENTRIES:
                        message = f"the archive has over {_ENTRIES} entries"
                        raise files.FileError("too_large", message)
                    _restore_entry(archive, entry)
        except (tarfile.TarError, MemoryError, OverflowError, EOFError) as error:
            raise files.FileError("invalid_input", f"not a tar archive: {error}") from error


def _restore_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
    name = os.path.normpath(entry.name)
    if name == "." or name.startswith(("/", "../")) or name == "..":
        return
    path = os.path.join(files.HOME, name)
    if entry.isdir():
        root, parts = files.locate(path, follow_last=False)
        os.close(files.open_parents(root, parts, make=True))
    elif entry.isreg():
        source = archive.extractfile(entry)
        files.write(path, iter(lambda: source.read(files.PIECE), b""), (entry.mode & 0o755) | 0o600)
    elif entry.issym() or entry.islnk():
        _restore_link(path, entry)


def _restore_link(path: str, entry: tarfile.TarInfo) -> None:
    if entry.islnk():
        with contextlib.suppress(OSError, files.FileError):
            root, parts = files.locate(os.path.join(files.HOME, entry.linkname))
            read_from = os.path.join(root, *parts)
            if stat.S_ISREG(os.lstat(read_from).st_mode):
                os.link(read_from, path)
        return
    target = os.path.normpath(os.path.join(os.path.dirname(path), entry.linkname))
    if target.startswith(_LINKED) or target == files.HOME:
        root, parts = files.locate(path, follow_last=False)
        folder = files.open_parents(root, parts[:-1], make=True)
        try:
            with contextlib.suppress(FileExistsError):
                os.symlink(entry.linkname, parts[-1], dir_fd=folder)
        finally:
            os.close(folder)
