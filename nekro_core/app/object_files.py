"""Gives a backup the files that are in the object store of a cluster."""

import re
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import from_thread

from nekro_core.backup.errors import BackupRefused
from nekro_core.backup.object_files import FetchedFile
from nekro_core.chat import ChatKey
from nekro_core.cluster.errors import ClusterError, ObjectMissing
from nekro_core.store import MediaFileRow, Store, StoreError

if TYPE_CHECKING:
    from nekro_core.cluster.object_copies import ObjectCopies
    from nekro_core.cluster.objects import ObjectStore

_Result = TypeVar("_Result")
_OF_A_BOX = re.compile(
    r"boxes/(?P<folder>[^/]+)/(?P<name>.+?)\.(json|shared|tar(\.unreadable|\+\d+)?)"
)
"""The path of a file of a box in the data folder."""


class ClusterObjectFiles:
    """Implements `nekro_core.backup.object_files.ObjectFiles`. Its methods are called in a thread,
    and have the event loop read the database and the object store."""

    def __init__(self, copies: "ObjectCopies", data: Path) -> None:
        self._copies = copies
        self._data = data
        self._boxes: Mapping[tuple[str, str], ChatKey] | None = None

    def size(self) -> int:
        """See `ObjectFiles.size`."""
        return _ask(self._copies.size)

    def covers(self, path: str) -> bool:
        """See `ObjectFiles.covers`."""
        found = _OF_A_BOX.fullmatch(path)
        if found is None:
            return False
        if (found["folder"], found["name"]) in self._known_boxes():
            return True
        # The marker of a copy without a row: the box was deleted, and this copy is deleted soon.
        return (self._data / f"boxes/{found['folder']}/{found['name']}.shared").exists()

    def fetch(
        self, folder: Path, has: Callable[[str], bool], left_out: list[str]
    ) -> Iterator[Collection[FetchedFile]]:
        """See `ObjectFiles.fetch`."""
        for (_, name), chat_key in self._known_boxes().items():
            try:
                yield self._fetch_box(chat_key, name, folder)
            except ObjectMissing as error:
                left_out.append(f"the box {name} of {chat_key}: {error}")
        missing = 0
        for row in self._media():
            try:
                if not has(self._copies.path_of(row)):
                    yield (self._fetch_medium(row, folder),)
            except ObjectMissing:
                missing += 1
        if missing:
            left_out.append(f"{missing} media are not in the object store, or not yet")

    def _media(self) -> Iterator[MediaFileRow]:
        after = ""
        while rows := _ask(partial(self._copies.media, after)):
            yield from rows
            after = rows[-1].object_name

    def _known_boxes(self) -> Mapping[tuple[str, str], ChatKey]:
        if self._boxes is None:
            self._boxes = _ask(self._copies.boxes)
        return self._boxes

    def _fetch_box(self, chat_key: ChatKey, name: str, folder: Path) -> list[FetchedFile]:
        copied = _ask(partial(self._copies.copy_box, chat_key, name, folder))
        return [FetchedFile(path=each.path, file=each.file) for each in copied]

    def _fetch_medium(self, row: MediaFileRow, folder: Path) -> FetchedFile:
        copied = _ask(partial(self._copies.copy_medium, row, folder))
        return FetchedFile(path=copied.path, file=copied.file)


def object_files_of(
    store: Store, objects: "ObjectStore | None", data: Path
) -> ClusterObjectFiles | None:
    """Return the files in the object store of a running process; None if it has no object store,
    because it has the bot for itself."""
    if objects is None:
        return None
    from nekro_core.cluster.object_copies import ObjectCopies  # noqa: PLC0415 - only in a cluster

    return ClusterObjectFiles(ObjectCopies(store.media_files, store.box_files, objects), data)


def _ask(function: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run a function in the event loop, and wait for it. Raises `BackupRefused`, `ObjectMissing`
    and `OSError`."""
    try:
        return from_thread.run(function)
    except ObjectMissing:
        raise
    except (ClusterError, StoreError) as error:
        raise BackupRefused(f"the files of the cluster cannot be read: {error}") from error
