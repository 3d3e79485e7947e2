"""File operations for the host, done inside the box and only in its own folders.

A path is resolved once, must then lie in one of the roots, and is walked again folder by folder
without following links: a link that is swapped in between gives an error, never another file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Iterable, Iterator

HOME = "/home/user"
ROOTS = (HOME, "/app/uploads", "/tmp")
PIECE = 256 * 1024
_ENTRIES = 100_000


class FileError(Exception):
    """A file operation failed for a reason of the caller's; ``code`` is stable."""

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
    errno.EDQUOT: "too_large",
    errno.ENAMETOOLONG: "invalid_input",
    errno.ENXIO: "invalid_input",
}


@contextlib.contextmanager
def _told_by_path(path: str) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except (OSError, ValueError) as error:
        code = _CODES.get(getattr(error, "errno", None), "invalid_input")
        reason = os.strerror(error.errno) if getattr(error, "errno", None) else str(error)
        raise FileError(code, f"{path}: {reason}") from error


def count() -> int:
    """How many files there are where the guest may make some."""
    seen = [os.statvfs(path) for path in (HOME, "/tmp", "/dev/shm")]
    return sum(found.f_files - found.f_ffree for found in seen)


def _locate(path: str, follow_last: bool = True) -> tuple[str, list[str]]:
    """The root that holds ``path`` and the parts below it."""
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


def _open_folder(root: str, parts: list[str], make: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags)
    for part in parts:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=folder)
            inner = os.open(part, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def read(path: str, limit: int, send: Callable[[bytes], None]) -> None:
    """Send the bytes of a regular file in pieces."""
    with _told_by_path(path):
        root, parts = _locate(path)
        folder = _open_folder(root, parts[:-1], make=False)
        try:
            # Non-blocking: opening a FIFO must not wait for its writer.
            file = os.open(
                parts[-1] or ".", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder
            )
        finally:
            os.close(folder)
        with os.fdopen(file, "rb", buffering=0) as opened:
            found = os.fstat(file)
            if stat.S_ISDIR(found.st_mode):
                raise FileError("is_a_directory", f"{path} is a folder")
            if not stat.S_ISREG(found.st_mode):
                raise FileError("invalid_input", f"{path} is not a regular file")
            left = limit
            if found.st_size > limit:
                raise FileError("too_large", f"{path} has {found.st_size} bytes, more than {limit}")
            while True:
                piece = opened.read(min(PIECE, left + 1))
                if not piece:
                    return
                left -= len(piece)
                if left < 0:
                    raise FileError("too_large", f"{path} grew beyond {limit} bytes")
                send(piece)


def write(path: str, pieces: Iterable[bytes], mode: int = 0o644) -> None:
    """Replace a file in one step, making its parents."""
    with _told_by_path(path):
        root, parts = _locate(path)
        if not parts[-1]:
            raise FileError("is_a_directory", f"{path} is a folder")
        folder = _open_folder(root, parts[:-1], make=True)
        temporary = f".{os.urandom(8).hex()}.part"
        try:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                    raise FileError("is_a_directory", f"{path} is a folder")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            try:
                with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
                    for piece in pieces:
                        file.write(piece)
                    file.flush()
                    os.fchmod(file.fileno(), mode)
                os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
        finally:
            os.close(folder)


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


def export(send: Callable[[bytes], None]) -> None:
    """Send the home folder as a tar archive: regular files, folders and links."""

    def wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry if entry.isreg() or entry.isdir() or entry.issym() or entry.islnk() else None

    import tarfile  # 15 ms that a box without saved files need not spend

    with (
        _told_by_path(HOME),
        tarfile.open(
            mode="w|", fileobj=_Sender(send), bufsize=PIECE, format=tarfile.PAX_FORMAT
        ) as archive,
    ):
        archive.add(HOME, arcname=".", filter=wanted)


def restore(pieces: Iterable[bytes]) -> None:
    """Put an archive's files, folders and inner links back. It may have been made by anyone."""
    import tarfile

    with _told_by_path("the archive"):
        try:
            with tarfile.open(mode="r|", fileobj=_Receiver(pieces), bufsize=PIECE) as archive:
                for count, entry in enumerate(archive):
                    if count > _ENTRIES:
                        raise FileError("too_large", f"the archive has over {_ENTRIES} entries")
                    _restore_entry(archive, entry)
        except (tarfile.TarError, MemoryError, OverflowError, EOFError) as error:
            raise FileError("invalid_input", f"not a tar archive: {error}") from error


def _restore_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
    name = os.path.normpath(entry.name)
    if name == "." or name.startswith(("/", "../")) or name == "..":
        return
    path = os.path.join(HOME, name)
    if entry.isdir():
        root, parts = _locate(path, follow_last=False)
        os.close(_open_folder(root, parts, make=True))
    elif entry.isreg():
        source = archive.extractfile(entry)
        write(path, iter(lambda: source.read(PIECE), b""), (entry.mode & 0o755) | 0o600)
    elif entry.issym() or entry.islnk():
        _restore_link(path, entry)


def _restore_link(path: str, entry: tarfile.TarInfo) -> None:
    if entry.islnk():
        with contextlib.suppress(OSError, FileError):
            root, parts = _locate(os.path.join(HOME, entry.linkname))
            read_from = os.path.join(root, *parts)
            if stat.S_ISREG(os.lstat(read_from).st_mode):
                os.link(read_from, path)
        return
    target = os.path.normpath(os.path.join(os.path.dirname(path), entry.linkname))
    if target == HOME or target.startswith(HOME + "/"):
        root, parts = _locate(path, follow_last=False)
        folder = _open_folder(root, parts[:-1], make=True)
        try:
            with contextlib.suppress(FileExistsError):
                os.symlink(entry.linkname, parts[-1], dir_fd=folder)
        finally:
            os.close(folder)
