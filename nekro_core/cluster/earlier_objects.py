"""Reads objects that are still in the object store that a cluster used before."""

from pathlib import Path

from loguru import logger

from nekro_core.cluster.errors import ClusterError, ObjectDamaged, ObjectMissing
from nekro_core.cluster.objects import OBJECT_BYTES, ObjectStore


class ObjectsOfTwoStores:
    """Implements `ObjectStore` on two stores, while a cluster goes from one to the other.

    New objects go into the new store. Objects of the earlier store are read from there until they
    are deleted, so nothing has to be copied while people wait.
    """

    def __init__(self, new: ObjectStore, earlier: ObjectStore) -> None:
        self._new = new
        self._earlier = earlier

    async def put(self, name: str, source: Path) -> None:
        """See `ObjectStore.put`."""
        await self._new.put(name, source)
        try:
            await self._earlier.delete(name)
        except ClusterError as error:
            # The new object is stored, and it is read first. `delete` deletes both.
            logger.warning("the earlier object {} is still in the earlier store: {}", name, error)

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        """See `ObjectStore.fetch`."""
        try:
            return await self._new.fetch(name, target, most_bytes=most_bytes)
        except ObjectDamaged:
            raise  # An object of the earlier store would be older.
        except ObjectMissing:
            return await self._earlier.fetch(name, target, most_bytes=most_bytes)

    async def delete(self, name: str) -> bool:
        """See `ObjectStore.delete`."""
        # The earlier one first: if this is interrupted, no old content appears again.
        earlier = await self._earlier.delete(name)
        return await self._new.delete(name) or earlier

    async def names(self, prefix: str = "") -> list[str]:
        """See `ObjectStore.names`."""
        return sorted({*await self._new.names(prefix), *await self._earlier.names(prefix)})
