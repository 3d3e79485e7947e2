"""Puts the media and the files of boxes of a restored data folder into the object store.

A backup has these files in the data folder, whether one process made it or a cluster. After a
restore each of them gets an object and a row, so all processes of the cluster can read it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from nekro_core.chat import ChatKey
from nekro_core.cluster.box_storage import SharedBoxStorage
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.shared_media import SHARED_MARKER, object_of
from nekro_core.sandbox.named import FolderStorage
from nekro_core.store import MediaFileRow, Store
from nekro_core.store.media_paths import MEDIUM


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCount:
    """How many media and how many chats with boxes got objects."""

    media: int
    chats_with_boxes: int


async def share_restored(
    store: Store, objects: ObjectStore, data: Path, *, node: str
) -> SharedCount:
    """Make objects and rows for all media and boxes in the data folder ``data``. The database must
    not have such rows (`RestoredRows.forget_objects`). ``node`` is the name of this process. Raises
    `ClusterError`, `StoreError` and `OSError`."""
    uploads, boxes = data / "uploads", data / "boxes"
    files = FolderStorage(boxes, lambda owner: ChatKey.parse(owner).file_name)
    storage = SharedBoxStorage(files, store, objects)
    media = with_boxes = 0
    for chat_key, _ in await store.transfer.chats():
        for path in await to_thread.run_sync(_media_in, uploads / chat_key.file_name):
            await _share_medium(store, objects, chat_key, path, node)
            media += 1
        if await to_thread.run_sync((boxes / chat_key.file_name).is_dir):
            await storage.share_archives(str(chat_key))
            with_boxes += 1
    if media:
        await to_thread.run_sync((uploads / SHARED_MARKER).touch)
    return SharedCount(media=media, chats_with_boxes=with_boxes)


async def _share_medium(
    store: Store, objects: ObjectStore, chat_key: ChatKey, path: Path, node: str
) -> None:
    digest, size, used = await to_thread.run_sync(_look, path)
    row = MediaFileRow(
        object_name=object_of(path), chat_key=chat_key, sha256=digest, size=size, node=node
    )
    await store.media_files.put(row, used=used)
    await objects.put(row.object_name, path)
    await store.media_files.note_ready(row.object_name)


def forget_copies(data: Path) -> None:
    """Delete the markers in a data folder (``.shared``) that say which of its files are copies of
    objects. The restored database has no rows of these objects. Raises `OSError`."""
    (data / "uploads" / SHARED_MARKER).unlink(missing_ok=True)
    for path in (data / "boxes").glob(f"*/*{SHARED_MARKER}"):
        path.unlink()


def _media_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if MEDIUM.search(path.as_posix())]


def _look(path: Path) -> tuple[str, int, float]:
    """Return the digest, the size in bytes, and when the file was last changed."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell(), path.stat().st_mtime
