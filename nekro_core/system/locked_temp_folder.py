"""Makes temporary folders outside the data folder. If the process that made a folder is killed, the
next process removes the folder.

Some files cannot be in the data folder. The path of a socket has at most 107 characters, and
programs that other users run must be in a folder that these users can reach. A killed process does
not remove such files. A lock shows whether the process still runs, because the kernel releases the
lock when the process ends.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def temp_parents() -> tuple[Path, ...]:
    """Return the parent directories for temporary folders that other users must reach. ``TMPDIR``
    is the last one, because it may be in a user's home."""
    return Path("/tmp"), Path("/var/tmp"), Path(tempfile.gettempdir())  # noqa: S108


class LockedTempFolder:
    """A new folder that only this user can read. The constructor raises `OSError`.

    The constructor first removes the folders with the same prefix whose processes have ended.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        _sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = os.open(self.path / "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The lock is held before another process can see the file.
        (self.path / "new").rename(self.path / "lock")

    def remove(self) -> None:
        """Delete the folder with its contents. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep(parent: Path, prefix: str) -> None:
    for path in parent.glob(f"{prefix}*"):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            # The folder belongs to another user, or it is just being made.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # The process of this folder still runs.
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)
