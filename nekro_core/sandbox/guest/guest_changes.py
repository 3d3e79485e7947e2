"""Finds which files of the home folder changed since the host last stored them."""

from __future__ import annotations

import os
import stat
import time

import guest_files as files
import guest_tar

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_MAX_REMOVED = 1000
"""The largest number of removed paths that one answer lists. If there are more, all files are sent
again."""
_SETTLED_NS = 50_000_000
"""A file can change twice within one tick of the kernel's clock, and then its times do not show the
second change. So if a file changed less than this many nanoseconds before it was sent, it is sent
again with the next answer."""

_Mark = tuple[int, ...]


class FileChangeTracker:
    """Stores a mark of each file that was sent, to find changed files. The mark contains the ctime,
    which code in the box cannot set."""

    def __init__(self) -> None:
        self._state = ""
        self._known: dict[str, _Mark] = {}

    def note(self) -> dict[str, Any]:
        """Store the marks of the present files without sending the files. The host has these files
        already."""
        self._known = dict(_marks())
        return self._answer(whole=True)

    def send(self, since: str, limit: int, send: Callable[[bytes], None]) -> dict[str, Any]:
        """Send the files that are new or changed since the state ``since``, which the last answer
        named.

        If ``since`` is any other state, send all files. After a restart the supervisor knows no
        state, so it sends all files."""
        found = dict(_marks())
        removed = [path for path in self._known if path not in found]
        whole = not since or since != self._state or not _can_be_told(removed)
        known = self._known
        paths = sorted(
            path for path, mark in found.items() if whole or not mark or mark != known.get(path)
        )
        if whole or paths:
            guest_tar.export(send, limit, paths)
        self._known = found
        return self._answer(whole=whole, removed=[] if whole else removed, entries=len(paths))

    def _answer(
        self, *, whole: bool, removed: list[str] | None = None, entries: int = 0
    ) -> dict[str, Any]:
        self._state = os.urandom(8).hex()
        return {
            "state": self._state,
            "whole": whole,
            "removed": removed or [],
            "entries": entries,
        }


def _marks() -> Iterator[tuple[str, _Mark]]:
    """Yield each path below the home folder with a mark. If a file changes, its mark changes.

    If the file changed within the last `_SETTLED_NS`, the mark is empty."""
    settled = time.time_ns() - _SETTLED_NS
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(files.HOME, folder)) as entries:
            for entry in entries:
                path = os.path.join(folder, entry.name)
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(path)
                    yield path, (found.st_mode,)
                elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
                    yield path, _mark(found) if found.st_ctime_ns < settled else ()


def _mark(found: os.stat_result) -> _Mark:
    return (
        found.st_mode,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def _can_be_told(paths: list[str]) -> bool:
    """Return True if an answer can list these paths: at most `_MAX_REMOVED`, all valid Unicode."""
    try:
        "".join(paths).encode()
    except UnicodeEncodeError:
        return False
    return len(paths) <= _MAX_REMOVED
