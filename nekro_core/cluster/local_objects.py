"""Implements the object store in a folder of this machine."""

import shutil
import uuid
from pathlib import Path

from anyio import to_thread

from nekro_core.cluster.errors import ObjectMissing, ObjectTooLarge
from nekro_core.cluster.objects import OBJECT_BYTES, check_object_name, too_large

_UNFINISHED = ".unfinished"
"""The folder of files that are being written. It cannot be an object, because no name of an object
begins with a dot."""


class LocalObjects:
    """Implements `ObjectStore` in a folder, for the processes of one machine.

    Args:
        folder: The folder. It is made when the first object is stored.
        most_bytes: Maximum size of one object in bytes.
    """

    def __init__(self, folder: Path, *, most_bytes: int = OBJECT_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes

    async def put(self, name: str, source: Path) -> None:
        """See `ObjectStore.put`."""
        await to_thread.run_sync(self._put, self._path(name), source)

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        """See `ObjectStore.fetch`."""
        path = self._path(name)
        try:
            # The size stays what it is: an object is replaced by another file, not written to.
            if (await to_thread.run_sync(path.stat)).st_size > most_bytes:
                raise too_large(name, most_bytes)
            return await to_thread.run_sync(_copy_whole, path, target, target.parent)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            if await to_thread.run_sync(path.is_file):
                raise
            raise ObjectMissing(f"there is no object {name}") from None

    async def delete(self, name: str) -> bool:
        """See `ObjectStore.delete`."""
        path = self._path(name)
        try:
            await to_thread.run_sync(path.unlink)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return False
        return True

    async def names(self, prefix: str = "") -> list[str]:
        """See `ObjectStore.names`."""
        return await to_thread.run_sync(self._names, prefix)

    def _put(self, path: Path, source: Path) -> None:
        if (size := source.stat().st_size) > self._most_bytes:
            raise ObjectTooLarge(
                f"{source.name} has {size} bytes; an object has at most {self._most_bytes}"
            )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _copy_whole(source, path, self._folder / _UNFINISHED)

    def _names(self, prefix: str) -> list[str]:
        found = (
            path.relative_to(self._folder).as_posix()
            for path in self._folder.rglob("*")
            if path.is_file()
        )
        return sorted(
            name for name in found if name.startswith(prefix) and not name.startswith(_UNFINISHED)
        )

    def _path(self, name: str) -> Path:
        return self._folder / check_object_name(name)


def _copy_whole(source: Path, target: Path, beside: Path) -> int:
    """Copy a file so that the target has its old content or all of the new one. The copy is first
    written into the folder ``beside``, which must be on the target's file system. Returns the size
    in bytes."""
    beside.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = beside / f".{uuid.uuid4().hex}.new"
    try:
        shutil.copyfile(source, unfinished)
        unfinished.chmod(0o600)
        size = unfinished.stat().st_size
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return size
