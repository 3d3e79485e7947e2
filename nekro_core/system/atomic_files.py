"""Replaces small files in one step, and notices when a file has changed."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace the content of a file in one step.

    A reader sees the old content or the new one, never a part of it. This also holds if the process
    is killed while it writes. The file is not synced: after a power cut it can have the old
    content or be empty. Only the owner can read the file. If this call makes the folder, only the
    owner can read it too.

    Args:
        path: The file. Missing folders are made. The new content is first written to a second file
            in the same folder.
        data: The new content, whole.

    Raises:
        OSError: The file cannot be written, for example because the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    fresh.replace(path)


class WatchedFile:
    """Notices whether a file has changed.

    It compares the modification time, the size and the inode, because some editors write into a
    file and others replace it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None

    def changed(self) -> bool:
        """Return True if the file was written, made or removed since the last call.

        The first call returns True if the file exists. A call takes microseconds. Raises `OSError`
        if the file's status cannot be read.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            stamp = None
        else:
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        return True

    def is_empty(self) -> bool:
        """Return True if the file was empty or missing at the last call of `changed`."""
        return self._stamp is None or self._stamp[1] == 0

    def ask_again(self) -> None:
        """Make the next `changed` return True if the file exists. Call this if the content of the
        file could not be used, so that the file is read again."""
        self._stamp = None
