"""Packs files that are sent out of a box. The format is not tar, because Python's `tarfile` reaches
only 65 MB/s.

An archive is a sequence of entries. An entry has a head of 25 bytes (kind, mode, time in ns, size,
length of its name, length of its rest), then the name, the rest, and for a file its bytes. The name
is the path below the packed folder. The rest depends on the kind: the target of a link, the name of
the packed file or folder (first entry only), or the reason why a path was skipped. The bytes of a
file with holes (SPARSE) are the number of its segments, the offset and length of each, and then
their data. The first entry is the packed file or folder itself, the last entry is END. Only
`guest_unpack` in another box reads this format; the host never does.
"""

from __future__ import annotations

import os
import stat
import struct

import guest_files as files

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

ENTRY = struct.Struct("!BIqQHH")
COUNT = struct.Struct("!I")
SEGMENT = struct.Struct("!QQ")
FILE, FOLDER, LINK, SKIPPED, END, SPARSE = range(1, 7)

DEPTH = 100
ENTRIES = 100_000
_BUFFER = 256 * 1024
_SMALL = 128 * 1024
_LONGEST = 4096
"""Maximum length of a path in bytes."""


def stays_inside(name: bytes, target: bytes) -> bool:
    """Return True if the link ``name`` with this target points into the packed folder."""
    if target.startswith(b"/") or b"\0" in target:
        return False
    led = os.path.normpath(os.path.join(os.path.dirname(name), target))
    return led != b".." and not led.startswith(b"../")


def pack(stream: socket.socket, path: str, recursive: bool) -> tuple[dict[str, Any], bytes]:
    """Send a file or, if ``recursive`` is true, a folder with everything below it. Return the reply
    and an empty body."""
    packer = _Packer(stream)
    with files.translate_os_errors(path):
        root, parts = files.locate(path)
        folder = files.open_parents(root, parts[:-1], make=False)
        try:
            packer.pack(folder, os.fsencode(parts[-1]), os.path.basename(root), path, recursive)
        finally:
            os.close(folder)
    return {}, b""


class _Packer:
    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._entries = 0

    def pack(self, folder: int, name: bytes, root: str, path: str, recursive: bool) -> None:
        """Send the entry ``name`` of an open folder and everything below it. If ``name`` is empty,
        send the folder itself, with the name ``root``. ``path`` is for the text of errors."""
        own = name or os.fsencode(root)
        name = name or b"."
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            if not recursive:
                raise files.FileError("is_a_directory", f"{path} is a folder")
            self._add(FOLDER, found, b"", own)
            opened = os.open(name, files.FOLDER_FLAGS, dir_fd=folder)
            try:
                self._pack_folder(opened, b"", 0)
            finally:
                os.close(opened)
        elif stat.S_ISREG(found.st_mode):
            self._pack_file(folder, name, b"", own)
        else:
            raise files.FileError("invalid_input", f"{path} is neither a file nor a folder")
        self._add(END)
        self._flush()

    def _pack_folder(self, folder: int, path: bytes, depth: int) -> None:
        inner = []
        for name in sorted(map(os.fsencode, os.listdir(folder))):
            way = path + name
            self._entries += 1
            if self._entries > ENTRIES:
                raise files.FileError("too_large", f"more than {ENTRIES} files at once")
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if len(way) > _LONGEST:
                    self._skip(way[:_LONGEST], b"its path is too long")
                elif stat.S_ISDIR(found.st_mode):
                    inner.append((name, found))
                elif stat.S_ISREG(found.st_mode):
                    self._pack_file(folder, name, way, b"")
                elif stat.S_ISLNK(found.st_mode):
                    self._pack_link(found, way, os.readlink(name, dir_fd=folder))
                else:
                    self._skip(way, _sort(found.st_mode))
            except FileNotFoundError:
                continue  # The file was removed after the folder was listed.
            except PermissionError:
                self._skip(way, b"it may not be read")
        for name, found in inner:
            self._enter(folder, name, path + name, found, depth)

    def _enter(
        self, folder: int, name: bytes, path: bytes, found: os.stat_result, depth: int
    ) -> None:
        if depth >= DEPTH:
            self._skip(path, b"it is too deep")
            return
        try:
            opened = os.open(name, files.FOLDER_FLAGS, dir_fd=folder)
        except OSError:
            self._skip(path, b"it may not be read")
            return
        try:
            self._add(FOLDER, found, path)
            self._pack_folder(opened, path + b"/", depth + 1)
        finally:
            os.close(opened)

    def _pack_link(self, found: os.stat_result, name: bytes, target: bytes) -> None:
        if stays_inside(name, target):
            self._add(LINK, found, name, target)
        else:
            self._skip(name, b"it links to somewhere else")

    def _pack_file(self, folder: int, name: bytes, way: bytes, rest: bytes) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=folder)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise PermissionError
            segments = files.data_segments(file, found)
            if segments is None:
                self._add(FILE, found, way, rest)
                self._send_bytes(file, 0, found.st_size)
            else:
                self._add(SPARSE, found, way, rest)
                self._buffer += COUNT.pack(len(segments))
                for segment in segments:
                    self._buffer += SEGMENT.pack(*segment)
                for offset, length in segments:
                    self._send_bytes(file, offset, length)
        finally:
            os.close(file)

    def _send_bytes(self, file: int, offset: int, size: int) -> None:
        """Send ``size`` bytes. If the file became shorter, zeros replace the missing bytes."""
        if size > _SMALL:
            self._flush()
            end = offset + size
            while offset < end:
                count = os.sendfile(self._stream.fileno(), file, offset, end - offset)
                if not count:
                    break
                offset += count
            size = end - offset
        for piece in files.read_segment(file, offset, size):
            self._buffer += piece
            if len(self._buffer) >= _BUFFER:
                self._flush()

    def _skip(self, name: bytes, reason: bytes) -> None:
        self._add(SKIPPED, None, name, reason)

    def _add(
        self,
        kind: int,
        found: os.stat_result | None = None,
        name: bytes = b"",
        rest: bytes = b"",
    ) -> None:
        mode = stat.S_IMODE(found.st_mode) if found else 0
        size = found.st_size if found and kind in (FILE, SPARSE) else 0
        time = found.st_mtime_ns if found else 0
        self._buffer += ENTRY.pack(kind, mode, time, size, len(name), len(rest)) + name + rest

    def _flush(self) -> None:
        self._stream.sendall(self._buffer)
        self._buffer.clear()


def _sort(mode: int) -> bytes:
    sorts = {stat.S_IFIFO: b"a FIFO", stat.S_IFSOCK: b"a socket"}
    return sorts.get(stat.S_IFMT(mode), b"a device")
