"""A folder whose path is short enough for a socket in it, gone at the latest with the next start.

A socket's path may have 107 characters at most, so the folder is not in the data folder. A process
that was killed leaves it behind; whether its owner lives is told by a lock that the system takes
back with the process.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "nekro-model-"


class ShortFolder:
    """A folder that only this user may enter. Making one removes those whose owners are dead."""

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        _sweep(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = os.open(self.path / "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (self.path / "new").rename(self.path / "lock")  # held before anyone who sweeps can see it

    def remove(self) -> None:
        """Delete it. May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # somebody else's, or still being made
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its owner lives
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)
