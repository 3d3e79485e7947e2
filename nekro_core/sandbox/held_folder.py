"""Temporary folders that are swept when whoever made them is gone, however that came about."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def make_held_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder below ``parent``, and the descriptor that holds it: open as long as it lives.

    What earlier processes left behind under this prefix is removed first. Raises `OSError`.
    """
    _sweep(parent, prefix)
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    lock = os.open(path / "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (path / "new").rename(path / "lock")  # held before anyone who sweeps can see it
    return path, lock


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
