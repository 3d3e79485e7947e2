"""Small files beside the database, which a bot shares with people, with commands, or with its next
start: replaced as a whole, and read again when somebody else has written them."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace the content of a file in one step.

    A reader sees the old content or the new one, never a part of it. This also holds if the process
    is killed while it writes. The file is not synced: after a power cut it can have the old
    content or be empty. Only the owner can read the file, and its folder if this call makes it.

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
    """Tells whether a file is another than when it was last asked.

    By its time, its size and its inode: editors write into a file or put another in its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None

    def changed(self) -> bool:
        """Whether it was written, made or removed since the last call; at the first one, whether
        it is there. Takes microseconds. Raises `OSError` where nobody can tell."""
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

    def ask_again(self) -> None:
        """Let `changed` say yes once more, if it is there: what was read has led to nothing."""
        self._stamp = None
