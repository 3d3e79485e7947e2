"""Says how a backup gets the files that are in the object store of a cluster.

A backup has these files where a bot that runs as one process has them: media in ``uploads``, files
of boxes in ``boxes``. So a backup of a cluster has the same form as any other backup.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file that was fetched from the object store.

    Attributes:
        path: Its path in the data folder, with ``/`` between its parts.
        file: The copy. Its time of change is when the file was last used or saved.
    """

    path: str
    file: Path


class ObjectFiles(Protocol):
    """The files in the object store to which rows of the database refer. All methods block, and are
    called in a worker thread of anyio. They raise `BackupRefused` if the database or the object
    store does not answer, and `OSError`."""

    def size(self) -> int:
        """Return the size of all files together in bytes."""

    def covers(self, path: str) -> bool:
        """Return whether a file of the data folder is a copy, perhaps an old one, of an object of a
        box. Then the backup has the object, and not this copy."""

    def fetch(
        self, folder: Path, has: Callable[[str], bool], left_out: list[str]
    ) -> Iterator[Collection[FetchedFile]]:
        """Fetch the files one after another into ``folder``. The files of one box come together.

        The caller deletes the copies that it got before it asks for the next ones. A file for whose
        path in the data folder ``has`` returns True is not fetched. ``left_out`` gets sentences
        about files that are missing in the object store.
        """
