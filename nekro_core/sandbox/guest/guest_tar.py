"""Packs the home folder as a tar archive, which the host stores on disk, and restores it."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat

import guest_files as files

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_ENTRIES = 100_000
_LINKED = (files.HOME + "/", "/usr/", "/opt/")
"""A symbolic link is restored only if it points into one of these folders. They are the home folder
and the folders of the image's programs, to which the links in a venv point."""


class _Sender:
    """A file object for `tarfile` that sends the bytes that are written to it, at most ``limit``
    bytes in all."""

    def __init__(self, send: Callable[[bytes], None], limit: int) -> None:
        self._send = send
        self._limit = self._left = limit

    def write(self, data: bytes) -> int:
        self._left -= len(data)
        if self._left < 0:
            message = f"the files and their names take more than {self._limit} bytes"
            raise files.FileError("too_large", message)
        self._send(bytes(data))
        return len(data)


class _Receiver:
    """A file object for `tarfile` that reads from an iterable of pieces."""

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


def export(send: Callable[[bytes], None], limit: int, paths: Iterable[str] | None = None) -> None:
    """Send the home folder, or these paths below it, as a tar archive of at most ``limit`` bytes.

    The archive has folders, links, and regular files without their holes."""

    # It is imported here, because the import takes 15 ms and many boxes save no files.
    import tarfile

    with (
        files.translate_os_errors(files.HOME),
        tarfile.open(
            mode="w|",
            fileobj=_Sender(send, limit),
            bufsize=files.PIECE,
            copybufsize=files.PIECE,
            format=tarfile.PAX_FORMAT,
        ) as archive,
    ):
        for path in _everything() if paths is None else paths:
            # The file may have been removed in the meantime.
            with contextlib.suppress(FileNotFoundError):
                _add(archive, os.path.join(files.HOME, path), path)


def _everything() -> Iterator[str]:
    """Yield the home folder and each path below it, a folder before its files."""
    yield "."
    waiting = ["."]
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(files.HOME, folder)) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                path = os.path.join(folder, entry.name)
                yield path
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)


def _add(archive: tarfile.TarFile, full: str, path: str) -> None:
    entry = archive.gettarinfo(full, arcname=path)
    if entry is None:  # The file is a socket, which a tar archive cannot contain.
        return
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    if entry.isdir() or entry.issym() or entry.islnk():
        archive.addfile(entry)
    elif entry.isreg():
        file = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _add_file(archive, entry, file)
        finally:
            os.close(file)


def _add_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, file: int) -> None:
    """Add an open file. If it has holes, it is added in GNU tar's sparse format 1.0: a list of the
    offsets and lengths of its data, and then the data."""
    found = os.fstat(file)
    segments = files.data_segments(file, found)
    if segments is None:
        entry.size = found.st_size
        archive.addfile(entry, _Receiver(files.read_segment(file, 0, entry.size)))
        return
    listed = "".join(f"{number}\n" for pair in segments for number in pair)
    head = f"{len(segments)}\n{listed}".encode()
    head += bytes(-len(head) % 512)
    entry.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": entry.name,
        "GNU.sparse.realsize": str(found.st_size),
    }
    entry.size = len(head) + sum(length for _, length in segments)
    pieces = itertools.chain.from_iterable(files.read_segment(file, *pair) for pair in segments)
    archive.addfile(entry, _Receiver(itertools.chain([head], pieces)))


def restore(pieces: Iterable[bytes]) -> None:
    """Restore an archive's files, folders and links. The archive is not trusted.

    A symbolic link that does not point into a folder of `_LINKED` is skipped."""
    import tarfile

    with files.translate_os_errors("the archive"):
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
        source: Any = archive.extractfile(entry)
        mode = (entry.mode & 0o755) | 0o600
        if entry.sparse is None:
            files.write(path, iter(lambda: source.read(files.PIECE), b""), mode)
        else:
            files.write_sparse(path, _data_of(source.raw, entry.sparse), entry.size, mode)
    elif entry.issym() or entry.islnk():
        _restore_link(path, entry)


def _data_of(source: Any, segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield the data of a sparse file in pieces, each with its offset."""
    for start, length in segments:
        offset, end = start, start + length
        source.seek(offset)
        while offset < end:
            piece = source.read(min(files.PIECE, end - offset))
            if not piece:
                break
            yield offset, piece
            offset += len(piece)


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
