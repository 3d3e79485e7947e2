"""Locks the data folder for one bot process. Without the lock, two processes on one folder would
resume each other's turns."""

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from nekro_core.store.errors import DataFolderInUse

FILE_NAME = "nekro.lock"
_LEAVING_S = 3.0
"""Seconds to wait for a lock whose owner is dead or has not written its process id yet. If a bot is
killed while it starts a child process, this child may hold the lock for a moment."""
_AGAIN_S = 0.02


class DataFolderLock:
    """A lock for a ``with`` block. The kernel releases it when the process ends in any way.

    A missing folder is created. Entering raises `DataFolderInUse` if another process has the lock.
    """

    def __init__(self, data_dir: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = data_dir / FILE_NAME
        self._clock = clock
        self._file: int | None = None

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(file)
        except BlockingIOError:
            pid, since = _owner(file)
            os.close(file)
            raise DataFolderInUse(
                f"the data folder {self._path.parent} is in use by {_words(pid, since)}. "
                "End that one, or give this one another folder with NEKRO_DATA_DIR.",
                pid=pid,
                since=since,
            ) from None
        except OSError:
            os.close(file)
            raise
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "since": self._clock()}).encode(), 0)
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            # The file is not deleted. Otherwise two processes could lock two different files with
            # the same name.
            with suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def data_folder_in_use(data_dir: Path) -> bool:
    """Return whether a bot has locked the folder. It is not enough to look for the lock's file:
    after a bot was killed, the file remains, but the lock does not."""
    try:
        file = os.open(data_dir / FILE_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _take(file: int) -> None:
    """Take the lock. Raises `BlockingIOError` if another process has it."""
    until = time.monotonic() + _LEAVING_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, _ = _owner(file)
            if (pid is not None and _lives(pid)) or time.monotonic() > until:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def _lives(pid: int) -> bool:
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return line.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _owner(file: int) -> tuple[int | None, float | None]:
    try:
        owner = json.loads(os.pread(file, 1024, 0))
        return int(owner["pid"]), float(owner["since"])
    except (ValueError, KeyError, TypeError, OSError):
        return None, None  # The owner has not written its process id yet.


def _words(pid: int | None, since: float | None) -> str:
    if pid is None or since is None:
        return "another process"
    when = datetime.fromtimestamp(since, UTC).astimezone()
    return f"process {pid}, since {when:%Y-%m-%d %H:%M:%S}"
