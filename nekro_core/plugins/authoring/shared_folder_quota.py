"""How much a chat's ``shared`` folder on the host may hold
(`nekro_core.plugins.authoring.host_files`)."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

from nekro_core.tools.outcome import ToolFailure

MOST_BYTES = 512 * 1024 * 1024
MOST_ENTRIES = 4096
"""Files and folders: as many are looked through in about 10 ms."""
IN_USE_S = 600.0
"""What is younger may belong to a call under way: none takes longer unless the operator says so."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    size: int
    changed: float
    is_folder: bool


@dataclass(frozen=True, slots=True)
class SharedFolderQuota:
    """The room in one folder. What lies there are copies of what the box has or has had, so the
    oldest go where there is too little; what is in use does not, and then there is none.

    A plugin writes there without asking, so the folder may be over by what one call wrote.
    """

    folder: Path
    most_bytes: int = MOST_BYTES
    most_entries: int = MOST_ENTRIES

    def make(self, wanted: int = 0) -> None:
        """See that a file of ``wanted`` bytes fits. Blocks. Raises `ToolFailure`."""
        entries = sorted(_entries(self.folder), key=lambda each: each.changed)
        held, number = sum(each.size for each in entries), len(entries)
        for each in entries:
            if self._fits(held + wanted, number + bool(wanted)):
                return
            if each.changed < time.time() - IN_USE_S and _removed(each):
                held, number = held - each.size, number - 1
        if not self._fits(held + wanted, number + bool(wanted)):
            raise ToolFailure(
                f"this chat's shared folder holds {held} bytes in {number} files and folders"
                f"{f', and {wanted} bytes more are wanted' if wanted else ''}: at most "
                f"{self.most_bytes} bytes in {self.most_entries} are kept. Use smaller files, or "
                "wait ten minutes; the operator may raise NEKRO_PLUGIN__SHARED_BYTES"
            )

    def clear(self, made: Iterator[Path]) -> None:
        """See that the folder is within its bounds again, if need be without what a call has just
        put there. Blocks. Raises `ToolFailure` where that had to go."""
        try:
            self.make()
        except ToolFailure:
            for path in made:
                with suppress(OSError):
                    path.unlink()
            raise

    def _fits(self, held: int, number: int) -> bool:
        return held <= self.most_bytes and number <= self.most_entries


def _entries(folder: Path) -> Iterator[_Entry]:
    for inner, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(inner, name)
            with suppress(FileNotFoundError):
                facts = path.lstat()
                is_folder = S_ISDIR(facts.st_mode)
                yield _Entry(path, 0 if is_folder else facts.st_size, facts.st_mtime, is_folder)


def _removed(entry: _Entry) -> bool:
    try:
        entry.path.rmdir() if entry.is_folder else entry.path.unlink()
    except OSError:  # a folder that still holds something, or somebody was faster
        return not entry.path.exists()
    return True
