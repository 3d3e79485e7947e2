"""File operations that the host requests. They run inside the box, only below the folders `ROOTS`.

A path is resolved once, and the resolved path must be below one of the roots. Then the resolved
path is opened folder by folder without following links. If code in the box replaces a folder by a
link in the meantime, the operation fails and does not access the file behind the link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from guest_wire import FOLDERS

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

HOME = "/home/user"
ROOTS = (HOME, "/app/uploads", "/tmp")
PIECE = 256 * 1024
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileError(Exception):
    """A file operation failed. ``code`` is one of the stable codes of `BoxFileError`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_CODES = {
    errno.ENOENT: "not_found",
    errno.EISDIR: "is_a_directory",
    errno.ENOTDIR: "invalid_input",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ELOOP: "permission_denied",
    errno.ENOSPC: "too_large",
    errno.EFBIG: "too_large",
    errno.E2BIG: "too_large",
    errno.EDQUOT: "too_large",
    errno.ENAMETOOLONG: "invalid_input",
    errno.ENXIO: "invalid_input",
}


def file_error(path: str, error: OSError | ValueError) -> FileError:
    """Make a `FileError` from an error of the operating system."""
    number = getattr(error, "errno", None)
    code = _CODES.get(number, "invalid_input")
    return FileError(code, f"{path}: {os.strerror(number) if number else error}")


@contextlib.contextmanager
def translate_os_errors(path: str) -> Iterator[None]:
    """If the ``with`` block raises `OSError` or `ValueError`, raise a `FileError` instead."""
    try:
        yield
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise file_error(path, error) from error


def count() -> int:
    """Count the files in the folders in which the guest can make files."""
    seen = [os.statvfs(path) for path in FOLDERS]
    return sum(found.f_files - found.f_ffree for found in seen)


def locate(path: str, follow_last: bool = True) -> tuple[str, list[str]]:
    """Resolve ``path``. Return the root (one of `ROOTS`) that it is in, and the names on the path
    below the root. Without ``follow_last``, a link at the end of the path is not followed. Raises
    `FileError`."""
    if not path or "\0" in path or len(path) > 4096:
        raise FileError("invalid_input", f"not a path: {path[:80]!r}")
    full = os.path.join(HOME, path)
    if follow_last:
        full = os.path.realpath(full)
    else:
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
    for root in ROOTS:
        if full == root or full.startswith(root + "/"):
            return root, full[len(root) :].strip("/").split("/")
    raise FileError("permission_denied", f"{path} is outside {', '.join(ROOTS)}")


def open_parents(root: str, parts: list[str], make: bool) -> int:
    """Open the folder whose path below ``root`` consists of ``parts``, without following links.

    With ``make``, missing folders are made.
    """
    folder = os.open(root, FOLDER_FLAGS)
    for part in parts:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=folder)
            inner = os.open(part, FOLDER_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def open_folder(path: str) -> int:
    """Open a folder by its path in the box."""
    with translate_os_errors(path):
        if not os.path.lexists(os.path.join(HOME, path)):
            raise FileNotFoundError(errno.ENOENT, "")
        root, parts = locate(path)
        return open_parents(root, [part for part in parts if part], make=False)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file for reading. Yields its descriptor and its status."""
    with translate_os_errors(path):
        root, parts = locate(path)
        folder = open_parents(root, parts[:-1], make=False)
        try:
            # O_NONBLOCK is needed, because otherwise opening a FIFO waits for a writer.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(parts[-1] or ".", flags, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            found = os.fstat(file)
            if stat.S_ISDIR(found.st_mode):
                raise FileError("is_a_directory", f"{path} is a folder")
            if not stat.S_ISREG(found.st_mode):
                raise FileError("invalid_input", f"{path} is not a regular file")
            yield file, found
        finally:
            os.close(file)


def read(path: str, limit: int, send: Callable[[bytes], None]) -> None:
    """Send the bytes of a regular file in pieces. Raises `FileError` if it has more than ``limit``
    bytes."""
    with _opened(path) as (file, found):
        left = limit
        if found.st_size > limit:
            raise FileError("too_large", f"{path} has {found.st_size} bytes, more than {limit}")
        while piece := os.read(file, min(PIECE, left + 1)):
            left -= len(piece)
            if left < 0:
                raise FileError("too_large", f"{path} grew beyond {limit} bytes")
            send(piece)


def read_piece(path: str, offset: int, limit: int, send: Callable[[bytes], None]) -> int:
    """Send at most ``limit`` bytes of a regular file, starting at ``offset``. Return the file's
    size."""
    with _opened(path) as (file, found):
        while limit > 0:
            piece = os.pread(file, min(PIECE, limit), offset)
            if not piece:
                break
            send(piece)
            offset += len(piece)
            limit -= len(piece)
        return found.st_size


def data_segments(file: int, found: os.stat_result) -> list[tuple[int, int]] | None:
    """Return the offsets and lengths of the data in an open file, in order. Return None if the file
    has no holes.

    A file with holes may be far larger than the disk, so its holes must not be copied as zeros.
    """
    if found.st_blocks * 512 >= found.st_size:
        return None
    segments: list[tuple[int, int]] = []
    end = 0
    try:
        while end < found.st_size:
            start = os.lseek(file, end, os.SEEK_DATA)
            end = min(os.lseek(file, start, os.SEEK_HOLE), found.st_size)
            if start < end:
                segments.append((start, end - start))
    except OSError as error:
        # ENXIO means that the rest of the file is a hole, or that the file became shorter.
        if error.errno != errno.ENXIO:
            raise
    return segments


def read_segment(file: int, offset: int, length: int) -> Iterator[bytes]:
    """Yield ``length`` bytes in pieces. If the file became shorter, zeros replace the missing
    bytes."""
    while length > 0:
        piece = os.pread(file, min(PIECE, length), offset) or bytes(min(PIECE, length))
        yield piece
        offset += len(piece)
        length -= len(piece)


def status(path: str, follow: bool) -> dict[str, Any] | None:
    """Return kind, size, permission bits and modification time of the file at ``path``, or None if
    there is no file."""
    with translate_os_errors(path):
        try:
            root, parts = locate(path, follow)
            folder = open_parents(root, parts[:-1], make=False)
            try:
                found = os.stat(parts[-1] or ".", dir_fd=folder, follow_symlinks=False)
            finally:
                os.close(folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return {
        "kind": kinds.get(stat.S_IFMT(found.st_mode), "other"),
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "modified": found.st_mtime,
    }


def write(path: str, pieces: Iterable[bytes], mode: int = 0o644) -> int:
    """Replace a file in one step by the ``pieces`` of its new content. ``mode`` has its permission
    bits. Missing parent folders are made. Return the file's size."""

    def fill(file: Any) -> None:
        for piece in pieces:
            file.write(piece)

    return _replace(path, fill, mode)


def write_sparse(path: str, data: Iterable[tuple[int, bytes]], size: int, mode: int) -> int:
    """Do the same as `write`, for a file of ``size`` bytes that has holes. ``data`` yields pairs of
    an offset and the bytes at this offset."""

    def fill(file: Any) -> None:
        for offset, piece in data:
            file.seek(offset)
            file.write(piece)
        file.truncate(size)
        file.seek(size)

    return _replace(path, fill, mode)


def _replace(path: str, fill: Callable[[Any], None], mode: int) -> int:
    with translate_os_errors(path):
        folder, name = _open_place(path)
        temporary = f".{os.urandom(8).hex()}.part"
        try:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise FileError("is_a_directory", f"{path} is a folder")
            try:
                with os.fdopen(os.open(temporary, _NEW, 0o600, dir_fd=folder), "wb") as file:
                    fill(file)
                    file.flush()
                    os.fchmod(file.fileno(), mode)
                    size = file.tell()
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
        finally:
            os.close(folder)
        return size


def append(path: str, pieces: Iterable[bytes], mode: int = 0o644) -> int:
    """Append to a regular file. The file and its parent folders are made if they are missing. If a
    write fails, the file is cut back to its old size. Return the file's new size."""
    with translate_os_errors(path):
        folder, name = _open_place(path)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            file = os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise FileError("invalid_input", f"{path} is not a regular file")
            written = 0
            try:
                for piece in pieces:
                    write_all(file, piece)
                    written += len(piece)
            except OSError:
                # It is unknown how much of the last piece was added. Another process may have made
                # the file shorter meanwhile, and its data must not be lost. So the file is cut back
                # only if its size shows that the added bytes are still there.
                if os.fstat(file).st_size >= found.st_size + written:
                    os.ftruncate(file, found.st_size)
                raise
            return os.fstat(file).st_size
        finally:
            os.close(file)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_all(file: int, data: bytes | bytearray) -> None:
    """Write all of ``data``. On a nearly full disk, one `os.write` may write only a part and raise
    no error."""
    start = os.write(file, data)
    while start < len(data):
        start += os.write(file, data[start:])


def create(path: str) -> Any:
    """Make a new file and its missing parent folders, and open the file for writing."""
    with translate_os_errors(path):
        folder, name = _open_place(path)
        try:
            return os.fdopen(os.open(name, _NEW, 0o644, dir_fd=folder), "wb", buffering=0)
        finally:
            os.close(folder)


def _open_place(path: str) -> tuple[int, str]:
    """Open the parent folder of ``path``, which is made if missing. Return the folder's descriptor
    and the file's name."""
    root, parts = locate(path)
    if not parts[-1]:
        raise FileError("is_a_directory", f"{path} is a folder")
    return open_parents(root, parts[:-1], make=True), parts[-1]
