"""Copies media and the files of boxes out of the object store, for a backup.

A backup copies the database first. Then it reads the rows of the files again, from the database
that is in use, and copies the objects that these rows name. The rows of media do not change. If a
box was saved meanwhile, the backup gets the files of its newest save: the objects of an earlier
save are deleted when a new archive of all files is stored. A file that was erased meanwhile has no
row any more, and is not copied.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from nekro_core.chat import ChatKey
from nekro_core.cluster.box_storage import BoxPart, parts_of
from nekro_core.cluster.errors import ObjectDamaged, ObjectMissing
from nekro_core.cluster.objects import ObjectStore, fetch_exactly
from nekro_core.sandbox.named.storage import NAME
from nekro_core.store import BoxFilesRow, MediaFileRow
from nekro_core.store.media_paths import MEDIUM
from nekro_core.store.shared_files import BoxFilesRepository, MediaFileRepository

_TRIES = 5
"""Maximum number of attempts to copy a box. An attempt fails if the box was saved meanwhile and its
earlier objects were deleted. A box is saved after each run of code, which takes longer than copying
most boxes."""
_SUFFIX = re.compile(r"\.tar(\+[0-9]{1,3})?")
"""The endings of a box's archives. Rows are written by workers, which a gateway trusts less than
itself, so the ending is checked before it becomes a part of a path."""
_RECORD = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFile:
    """A copy of a file. ``file`` is the copy, and ``path`` the path that the file has in the data
    folder of a bot that runs as one process, with ``/`` between its parts."""

    path: str
    file: Path


class ObjectCopies:
    """Copies the objects to which the rows of media and boxes refer. Methods raise `ClusterError`,
    `StoreUnavailable` and `OSError`."""

    def __init__(
        self, media: MediaFileRepository, boxes: BoxFilesRepository, objects: ObjectStore
    ) -> None:
        self._media = media
        self._boxes = boxes
        self._objects = objects

    async def size(self) -> int:
        """Return the size of all objects that the rows of media and boxes name, in bytes."""
        return await self._media.size() + await self._boxes.size()

    async def boxes(self) -> Mapping[tuple[str, str], ChatKey]:
        """Return the chats of all boxes. The keys are the name of the chat's folder and the name of
        the box."""
        return {(chat.file_name, name): chat for chat, name in await self._boxes.names()}

    async def media(self, after: str) -> list[MediaFileRow]:
        """Return the next rows of media, in the order of their objects' names: those with greater
        names than ``after``. Returns nothing after the last one."""
        return await self._media.page(after)

    def path_of(self, row: MediaFileRow) -> str:
        """Return the path of a medium in the data folder. Raises `ObjectMissing` if the row does
        not name a medium."""
        path = f"uploads/{row.chat_key.file_name}/{row.object_name.rpartition('/')[2]}"
        if MEDIUM.search(f"/{path}") is None:
            raise ObjectMissing(f"{row.object_name[:100]!r} is not the name of a medium")
        return path

    async def copy_medium(self, row: MediaFileRow, folder: Path) -> CopiedFile:
        """Copy a medium into ``folder``. Raises `ObjectMissing` if its object is missing or has
        another content than its row says."""
        path = self.path_of(row)
        target = folder / path.rpartition("/")[2]
        await self._copy(row.object_name, target, sha256=row.sha256, size=row.size)
        await to_thread.run_sync(os.utime, target, (row.used, row.used))
        return CopiedFile(path=path, file=target)

    async def copy_box(self, chat_key: ChatKey, name: str, folder: Path) -> list[CopiedFile]:
        """Copy the files of a box into ``folder``; nothing if the box was deleted. Raises
        `ObjectMissing`, and then no file of the box is left in ``folder``."""
        tried: BoxFilesRow | None = None
        for _ in range(_TRIES):
            row = await self._boxes.get(chat_key, name)
            if row is None:
                return []
            try:
                return await self._copy_box(row, folder)
            except ObjectMissing:
                if tried is not None and tried.parts == row.parts:
                    raise
                tried = row
        raise ObjectMissing(f"the box {name} was saved again {_TRIES} times while it was copied")

    async def _copy_box(self, row: BoxFilesRow, folder: Path) -> list[CopiedFile]:
        parts = parts_of(row)
        if not NAME.fullmatch(row.name) or not all(map(_is_archive, parts)):
            raise ObjectMissing(f"the row of the box {row.name[:70]!r} has unexpected names")
        place = f"boxes/{row.chat_key.file_name}/{row.name}"
        copied = []
        try:
            for part in parts:
                target = folder / f"{row.name}{part.suffix}"
                copied.append(CopiedFile(path=f"{place}{part.suffix}", file=target))
                await self._copy(part.object_name, target, sha256=part.sha256, size=part.size)
            if row.record:
                target = folder / f"{row.name}{_RECORD}"
                copied.append(CopiedFile(path=f"{place}{_RECORD}", file=target))
                await to_thread.run_sync(target.write_text, row.record)
        except BaseException:
            for each in copied:
                each.file.unlink(missing_ok=True)
            raise
        for each in copied:
            await to_thread.run_sync(os.utime, each.file, (row.saved, row.saved))
        return copied

    async def _copy(self, object_name: str, target: Path, *, sha256: str, size: int) -> None:
        try:
            await fetch_exactly(self._objects, object_name, target, sha256=sha256, size=size)
        except ObjectDamaged:
            await anyio.Path(target).unlink(missing_ok=True)
            raise


def _is_archive(part: BoxPart) -> bool:
    return _SUFFIX.fullmatch(part.suffix) is not None
