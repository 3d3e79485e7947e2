"""Unpacks files that are sent into a box. Another box may have packed them, so the data is not
trusted.

Everything is written to a temporary name beside the target, and renamed when it is complete. So a
partial file is never visible, and after a failure the received files are deleted. A received folder
is merged into an existing folder. If a file and a folder have the same name there, nothing is
merged. Links to folders are not followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

import guest_files as files
from guest_pack import (
    COUNT,
    DEPTH,
    END,
    ENTRIES,
    ENTRY,
    FILE,
    FOLDER,
    LINK,
    SEGMENT,
    SKIPPED,
    SPARSE,
    stays_inside,
)

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

_BUFFER = 1024 * 1024
_TOLD = 1000
"""The largest number of skipped entries that the reply lists."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack(stream: socket.socket, path: str) -> tuple[dict[str, Any], bytes]:
    """Unpack the stream to ``path``. Return the reply, and a JSON list of the skipped entries."""
    reader = _Reader(stream)
    with files.translate_os_errors(path):
        kind, mode, time, size, name, own = reader.entry()
        if kind not in (FILE, SPARSE, FOLDER) or name:
            raise _bad("it begins with neither a file nor a folder")
        root, parts = files.locate(path)
        parts = [part for part in parts if part]
        if kind != FOLDER and _is_folder(root, parts):
            parts = [*parts, os.fsdecode(_checked_name(own))]
        elif kind != FOLDER and path.endswith("/"):
            raise files.FileError("not_found", f"{path}: there is no such folder")
        parent = files.open_parents(root, parts[:-1], make=True)
        try:
            name_there = parts[-1] if parts else "."
            target = _Target(reader, parent, os.fsencode(name_there))
            target.receive(kind, mode, time, size)
        finally:
            os.close(parent)
    reply = {"path": "/".join((root, *parts)), "bytes": target.bytes, "files": target.files}
    return reply, json.dumps(target.skipped).encode("utf-8", "replace")


def _bad(why: str) -> files.FileError:
    return files.FileError("invalid_input", f"this is not what a box packs: {why}")


def _is_folder(root: str, parts: list[str]) -> bool:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return stat.S_ISDIR(os.lstat("/".join((root, *parts))).st_mode)
    return False


def _checked_name(name: bytes) -> bytes:
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name or len(name) > 255:
        raise _bad("it has an invalid name")
    return name


class _Reader:
    """Reads entries and bytes from a stream."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._space = bytearray(_BUFFER)
        self._view = memoryview(self._space)
        self._start = self._end = 0

    def entry(self) -> tuple[int, int, int, int, bytes, bytes]:
        """Read the next entry: kind, mode, time, size, name and rest (see `guest_pack`)."""
        head = self._take(ENTRY.size)
        kind, mode, time, size, name_length, rest_length = ENTRY.unpack(head)
        if name_length > 4096 or rest_length > 4096 or size > 2**62:
            raise _bad("it has an invalid length")
        time = min(max(time, 0), 2**62)
        both = self._take(name_length + rest_length)
        return kind, mode, time, size, both[:name_length], both[name_length:]

    def segments(self, size: int) -> list[tuple[int, int]]:
        """Read the offsets and lengths of the data in a file of ``size`` bytes that has holes."""
        (count,) = COUNT.unpack(self._take(COUNT.size))
        found: list[tuple[int, int]] = []
        end = 0
        for _ in range(count):
            offset, length = SEGMENT.unpack(self._take(SEGMENT.size))
            if offset < end or not length or offset + length > size:
                raise _bad("it has an invalid segment")
            end = offset + length
            found.append((offset, length))
        return found

    def copy(self, size: int, file: int) -> None:
        """Write the next ``size`` bytes to a file."""
        while size:
            if self._start == self._end:
                self._fill()
            count = min(size, self._end - self._start)
            wrote = os.write(file, self._view[self._start : self._start + count])
            self._start += wrote
            size -= wrote

    def _take(self, size: int) -> bytes:
        while self._end - self._start < size:
            if self._end + size > len(self._space):
                rest = bytes(self._view[self._start : self._end])
                self._view[: len(rest)] = rest
                self._start, self._end = 0, len(rest)
            self._fill()
        taken = bytes(self._view[self._start : self._start + size])
        self._start += size
        return taken

    def _fill(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        count = self._stream.recv_into(self._view[self._end :])
        if not count:
            raise _bad("it ends too soon")
        self._end += count


class _Target:
    """Writes the received entries to a temporary name, and then renames it to the final name."""

    def __init__(self, reader: _Reader, parent: int, name: bytes) -> None:
        self.bytes = self.files = 0
        self.skipped: list[tuple[str, str]] = []
        self._reader = reader
        self._parent = parent
        self._name = name
        self._temporary = f".{os.urandom(8).hex()}.part".encode()
        self._made: dict[bytes, tuple[int, int]] = {}
        self._open_path = b""
        self._open_folder = -1

    def receive(self, kind: int, mode: int, time: int, size: int) -> None:
        """Receive all entries up to END, then rename the file or folder to its final name."""
        try:
            if kind == FOLDER:
                self._receive_folder(mode, time)
            else:
                self._receive_file(self._parent, self._temporary, kind, mode, time, size)
                self._receive_end()
            _check(self._parent, self._temporary, self._parent, self._name)
            _settle(self._parent, self._temporary, self._parent, self._name)
        finally:
            _remove(self._parent, self._temporary)

    def _receive_end(self) -> None:
        if self._reader.entry()[0] != END:
            raise _bad("it has more entries after the file")

    def _receive_folder(self, mode: int, time: int) -> None:
        os.mkdir(self._temporary, 0o700, dir_fd=self._parent)
        top = os.open(self._temporary, files.FOLDER_FLAGS, dir_fd=self._parent)
        try:
            self._made[b""] = (mode, time)
            for _ in range(ENTRIES + 2):
                kind, mode, time, size, name, rest = self._reader.entry()
                if kind == END:
                    break
                self._receive_entry(top, kind, mode, time, size, name, rest)
            else:
                raise files.FileError("too_large", f"more than {ENTRIES} files at once")
            self._finish_folders(top)
        finally:
            self._leave_folder()
            os.close(top)

    def _receive_entry(
        self, top: int, kind: int, mode: int, time: int, size: int, name: bytes, rest: bytes
    ) -> None:
        if kind == SKIPPED:
            if len(self.skipped) < _TOLD:
                told = os.fsencode(name).decode("utf-8", "replace")
                self.skipped.append((told, rest.decode("utf-8", "replace")[:200]))
            return
        parts = name.split(b"/")
        if len(parts) > DEPTH + 2:
            raise _bad("it has a path with too many folders")
        for part in parts:
            _checked_name(part)
        path, last = name[: -len(parts[-1])].rstrip(b"/"), parts[-1]
        folder = self._enter_folder(top, path)
        try:
            if kind in (FILE, SPARSE):
                self._receive_file(folder, last, kind, mode, time, size)
            elif kind == FOLDER:
                os.mkdir(last, 0o700, dir_fd=folder)
                self._made[name] = (mode, time)
            elif kind == LINK and stays_inside(name, rest):
                os.symlink(rest, last, dir_fd=folder)
                os.utime(last, ns=(time, time), dir_fd=folder, follow_symlinks=False)
            else:
                raise _bad(f"it has an entry of the unknown kind {kind}")
        except FileExistsError as error:
            raise _bad("it has the same name twice") from error

    def _enter_folder(self, top: int, path: bytes) -> int:
        """Open the folder of the next entry. Usually this is the folder of the last entry, which is
        still open."""
        if path not in self._made:
            raise _bad("it has a file without its folder")
        if self._open_folder < 0 or path != self._open_path:
            self._leave_folder()
            self._open_folder = _walk(top, path)
            self._open_path = path
        return self._open_folder

    def _leave_folder(self) -> None:
        if self._open_folder >= 0:
            os.close(self._open_folder)
            self._open_folder = -1

    def _receive_file(
        self, folder: int, name: bytes, kind: int, mode: int, time: int, size: int
    ) -> None:
        file = os.open(name, _NEW, mode & 0o777 | 0o200, dir_fd=folder)
        try:
            if kind == FILE:
                self._reader.copy(size, file)
            else:
                for offset, length in self._reader.segments(size):
                    os.lseek(file, offset, os.SEEK_SET)
                    self._reader.copy(length, file)
                os.ftruncate(file, size)
            os.fchmod(file, mode & 0o777)
            os.utime(file, ns=(time, time))
        finally:
            os.close(file)
        self.bytes += size
        self.files += 1

    def _finish_folders(self, top: int) -> None:
        """Set the modes and times of all folders, the inner ones first. This happens at the end,
        because making a file changes the time of its folder."""
        for path, (mode, time) in reversed(self._made.items()):
            folder = _walk(top, path)
            try:
                os.fchmod(folder, mode & 0o777 | 0o700)
                os.utime(folder, ns=(time, time))
            finally:
                os.close(folder)


def _walk(top: int, path: bytes) -> int:
    folder = os.dup(top)
    for part in path.split(b"/") if path else ():
        try:
            inner = os.open(part, files.FOLDER_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _check(source: int, name: bytes, target: int, final: bytes) -> None:
    """Raise `FileError` if a file would replace a folder, or a folder a file, before anything is
    renamed."""
    ours = _is_folder_in(source, name)
    theirs = _is_folder_in(target, final)
    shown = os.fsdecode(final)
    if theirs is None or not (ours or theirs):
        return
    if not ours:
        raise files.FileError("is_a_directory", f"{shown} is a folder and would be replaced")
    if not theirs:
        raise files.FileError("invalid_input", f"{shown} is no folder and would be replaced")
    _merge(source, name, target, final, _check)


def _settle(source: int, name: bytes, target: int, final: bytes) -> None:
    """Rename a complete file or folder to its final name. A new folder is merged into an existing
    folder."""
    if _is_folder_in(source, name) and _is_folder_in(target, final):
        _merge(source, name, target, final, _settle)
    else:
        os.rename(name, final, src_dir_fd=source, dst_dir_fd=target)


def _is_folder_in(parent: int, name: bytes) -> bool | None:
    """Return whether a name in a folder is a folder; None if it does not exist."""
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _merge(
    source: int,
    name: bytes,
    target: int,
    final: bytes,
    each: Callable[[int, bytes, int, bytes], None],
) -> None:
    """Call ``each`` for everything in a folder, with the folder into which it is merged."""
    ours = os.open(name, files.FOLDER_FLAGS, dir_fd=source)
    try:
        theirs = os.open(final, files.FOLDER_FLAGS, dir_fd=target)
        try:
            for inner in sorted(map(os.fsencode, os.listdir(ours))):
                each(ours, inner, theirs, inner)
        finally:
            os.close(theirs)
    finally:
        os.close(ours)


def _remove(parent: int, name: bytes) -> None:
    """Delete a file or folder. Errors are ignored."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError:
        import shutil

        way = os.path.join(f"/proc/self/fd/{parent}".encode(), name)
        shutil.rmtree(way, ignore_errors=True)
