"""Connects the media and boxes of a process to the object store of a cluster.

Only a process of a cluster imports the modules that do this. Together with those that share the
plugins, they take 60 ms.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nekro_core.cluster.objects import ObjectStore
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.sandbox.named import BoxStorage, FolderStorage, NamedBoxes
from nekro_core.store import ChangeTopic, Store
from nekro_core.system.background_tasks import background_tasks

if TYPE_CHECKING:
    from nekro_core.cluster.box_storage import SharedBoxStorage
    from nekro_core.cluster.shared_media import SharedMediaFiles


@asynccontextmanager
async def open_shared_media(
    store: Store,
    objects: ObjectStore | None,
    data: Path,
    settings: MediaSettings,
    node: str,
    *,
    wall: Callable[[], float],
) -> "AsyncIterator[SharedMediaFiles | None]":
    """Share the media below the data folder with the other processes, until the block ends. Yields
    None if there is no object store, because the process has the bot for itself. Raises
    `StoreError` and `OSError`."""
    if objects is None:
        yield None
        return
    from nekro_core.cluster.shared_media import SharedMediaFiles  # noqa: PLC0415 - see above
    from nekro_core.cluster.unused_objects import UnusedObjects  # noqa: PLC0415 - see above

    uploads = data / "uploads"
    store.messages.media_paths.folder = uploads
    shared = SharedMediaFiles(store, objects, uploads, settings, node, wall=wall)
    await shared.begin()
    store.changes.listen(ChangeTopic.MEDIA_FILES, shared.follow)
    await shared.follow("")  # Media may have been erased while this process did not run.
    async with background_tasks() as tasks:
        tasks.start_soon(shared.live, name="media for other processes")
        tasks.start_soon(UnusedObjects(store, objects).live, name="unused objects")
        yield shared


class BoxSharing:
    """Shares the files of boxes with the other processes. Without an object store, it does nothing,
    because the process has the bot for itself."""

    def __init__(self, store: Store | None, objects: ObjectStore | None) -> None:
        self._store = store
        self._objects = objects
        self._storage: SharedBoxStorage | None = None

    def storage(self, files: FolderStorage) -> BoxStorage:
        """Return the storage of boxes whose files are in a folder of this machine."""
        if self._store is None or self._objects is None:
            return files
        from nekro_core.cluster.box_storage import SharedBoxStorage  # noqa: PLC0415 - see above

        self._storage = SharedBoxStorage(files, self._store, self._objects)
        return self._storage

    async def follow_erasures(self, boxes: NamedBoxes, data: Path) -> None:
        """Delete the boxes that other processes have erased and will erase, in the data folder
        ``data`` of this process. Raises `StoreError` and `OSError`."""
        if self._store is None or self._storage is None:
            return
        from nekro_core.cluster.box_erasures import BoxErasures  # noqa: PLC0415 - see above

        erasures = BoxErasures(
            self._store.box_files, self._storage, boxes, data / "boxes", data / "plugin_files"
        )
        self._store.changes.listen(ChangeTopic.BOX_FILES, erasures.follow)
        await erasures.follow("")
