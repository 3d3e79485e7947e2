"""Deletes objects to which no row refers. A process that is killed between storing an object and
storing its row leaves such an object, and so does an erasure while the object store cannot be
reached. A worker that is killed while it sends a medium leaves an outgoing object."""

from collections.abc import Collection

import anyio
from loguru import logger

from nekro_core.cluster.box_storage import BOXES, objects_in
from nekro_core.cluster.carried_media import OUTGOING
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.plugin_objects import PLUGINS, object_name
from nekro_core.cluster.shared_media import MEDIA
from nekro_core.store import Store, StoreError

ROUND_S = 3600.0
"""Seconds between two rounds. An object is deleted if no row refers to it in two rounds, so storing
an object and then its row may take this long."""


class UnusedObjects:
    """Finds and deletes objects to which no row refers."""

    def __init__(self, store: Store, objects: ObjectStore) -> None:
        self._media = store.media_files
        self._boxes = store.box_files
        self._plugins = store.shared_plugins
        self._objects = objects
        self._suspects: frozenset[str] = frozenset()

    async def live(self) -> None:
        """Look through the objects every hour, until cancelled."""
        while True:
            await anyio.sleep(ROUND_S)
            try:
                await self.run_once()
            except (ClusterError, StoreError, OSError) as error:
                logger.warning("unused objects stay until the next round: {}", error)

    async def run_once(self) -> int:
        """Delete the objects that were unused in the last round and are unused now. Returns how
        many there were, including those that could not be deleted. Raises `ClusterError`,
        `StoreError` and `OSError`."""
        unused = await self._unused()
        gone = unused & self._suspects
        for name in gone:
            try:
                await self._objects.delete(name)
            except (ClusterError, OSError) as error:
                logger.warning("the object {} stays until the next round: {}", name, error)
        self._suspects = frozenset(unused - gone)
        if gone:
            logger.info("{} objects that nothing refers to were deleted", len(gone))
        return len(gone)

    async def _unused(self) -> set[str]:
        # First the objects, then the rows: an object whose row comes in between is not unused.
        names = await self._objects.names()
        media = {name for name in names if name.startswith(MEDIA)}
        boxes = {name for name in names if name.startswith(BOXES)}
        # An outgoing medium is needed for one call, which takes at most 10 minutes.
        outgoing = {name for name in names if name.startswith(OUTGOING)}
        plugins = {name for name in names if name.startswith(PLUGINS)}
        unused = media - await self._media.known(media)
        if plugins:
            unused |= plugins - {object_name(each) for each in await self._plugins.archives()}
        return unused | (boxes - await self._in_boxes(boxes)) | outgoing

    async def _in_boxes(self, names: Collection[str]) -> set[str]:
        if not names:
            return set()
        rows = await self._boxes.all_parts()
        return {name for parts in rows for name in objects_in(parts)}
