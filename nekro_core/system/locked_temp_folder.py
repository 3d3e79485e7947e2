"""Temporary folders that are swept once whoever made them is gone, however that came about.

Who has to leave the data folder (a socket's path has 107 characters at most, other users must reach
what they run) leaves something behind when it is killed. Whether an owner lives is told by a lock,
which the system takes back with the process.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def temp_parents() -> tuple[Path, ...]:
    """Where temporary folders go whose paths others can read: ``TMPDIR``, which may lie in
    somebody's home, comes last."""
    return Path("/tmp"), Path("/var/tmp"), Path(tempfile.gettempdir())  # noqa: S108


class LockedTempFolder:
    """A new folder, for this user alone. Raises `OSError`.

    What earlier processes left behind under the same prefix is removed first.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        _sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = os.open(self.path / "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (self.path / "new").rename(self.path / "lock")  # held before anyone who sweeps can see it

    def remove(self) -> None:
        """Delete it with all that is in it. May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep(parent: Path, prefix: str) -> None:
    for path in parent.glob(f"{prefix}*"):
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
