"""Temporary folders outside the data folder, which the next process removes if their owner died.

Some files cannot be in the data folder: the path of a socket has at most 107 characters, and other
users must reach the programs that they run. A killed process leaves such files behind. A lock shows
whether the owner lives, since the system releases the lock when the process ends.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def temp_parents() -> tuple[Path, ...]:
    """Where temporary folders can be made that other users can reach. ``TMPDIR`` comes last, since
    it may be in a user's home."""
    return Path("/tmp"), Path("/var/tmp"), Path(tempfile.gettempdir())  # noqa: S108


class LockedTempFolder:
    """A new folder that only this user can read. Raises `OSError`.

    First it removes what dead processes left behind under the same prefix.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        _sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = os.open(self.path / "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (self.path / "new").rename(self.path / "lock")  # locked before another process can see it

    def remove(self) -> None:
        """Delete the folder with its contents. May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep(parent: Path, prefix: str) -> None:
    for path in parent.glob(f"{prefix}*"):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or still being made
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its owner lives
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)
