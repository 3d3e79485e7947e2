"""Finds and deletes old media, by age and by total size. The functions block: call them in a
thread."""

import os
from collections.abc import Sequence
from pathlib import Path


def expired_files(folder: Path, *, before: float, total_bytes: int) -> list[Path]:
    """Find the files in the chats' folders that are to be deleted, oldest first. These are files
    last used before ``before`` (seconds since 1970). If all files together exceed ``total_bytes``,
    the result includes the oldest of the other files too, so that at most nine tenths of
    ``total_bytes`` remain."""
    found: list[tuple[float, int, Path]] = []
    for chat in _entries(folder):
        if chat.is_dir(follow_symlinks=False):
            for entry in _entries(Path(chat.path)):
                stat = entry.stat(follow_symlinks=False)
                found.append((stat.st_mtime, stat.st_size, Path(entry.path)))
    found.sort()
    used = sum(size for _, size, _ in found)
    least = total_bytes * 9 // 10 if used > total_bytes else total_bytes
    old = []
    for used_last, size, path in found:
        if used_last >= before and used <= least:
            break
        used -= size
        old.append(path)
    return old


def files_in(folder: Path) -> tuple[int, int]:
    """Count the files of one chat's folder. Returns their number and their size in bytes."""
    sizes = [entry.stat(follow_symlinks=False).st_size for entry in _entries(folder)]
    return len(sizes), sum(sizes)


def delete_expired(paths: Sequence[Path], *, before: float) -> int:
    """Delete the files that were last used before ``before`` (seconds since 1970). Pass the time at
    which the search for old files began, so that a file that was used since then is not deleted.
    Returns the number of deleted files."""
    gone = 0
    for path in paths:
        try:
            if path.stat().st_mtime < before:
                path.unlink()
                gone += 1
        except FileNotFoundError:
            continue
    return gone


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except FileNotFoundError:
        return []
