"""Shares the media of chats between processes, through the object store.

Each medium has a row in the database (`MediaFileRow`) and an object. The row is stored first, so
that there is never an object that an erasure cannot find. A process that reads a medium of another
process copies it into its own folder ``uploads``.
"""

import errno
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio
from anyio import to_thread
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.cluster.errors import ClusterError, ObjectDamaged, ObjectMissing
from nekro_core.cluster.objects import ObjectStore, digest_and_size, fetch_exactly
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.store import MediaFileRow, Store, StoreError
from nekro_core.store.media_paths import MEDIUM
from nekro_core.system.keyed_queue import KeyedLimiter

MEDIA = "media/"
"""The beginning of the names of the objects of media."""
SHARED_MARKER = ".shared"
"""The file in the folder ``uploads`` that says that all its media have rows. It is missing in the
folder of a bot that ran as one process. The markers of the copies of boxes have this ending too."""
_AGAIN_S = 5.0
"""Pause in seconds before media that could not be stored as objects are tried again."""
_YOUNG_S = 60.0
"""A file without a row that is younger than this many seconds, and that this process has not seen
with a row, may just be getting its row. It is looked at again later."""
_MOST_KNOWN = 10_000
"""Maximum number of files that are remembered. An erased file that is not remembered is deleted
when it is `_YOUNG_S` old."""
_SLICE = 100
"""Number of rows that are deleted together."""
_LEAST_FREE = 64 * 1024 * 1024
"""Bytes that must stay free on the disk, for the database and the logs."""
_EVER = float("inf")


class SharedMediaFiles:
    """Implements `nekro_core.delivery.media.shared_media.SharedMedia`.

    The code that makes this object awaits `begin`, and runs `live` as a task. If a process had no
    connection while media were erased, `follow` deletes its copies after it has connected again.

    Args:
        store: The database.
        objects: The object store.
        folder: The folder ``uploads`` of this process.
        settings: The limits of media.
        node: The name of this process, which no other process has.
        wall: Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        store: Store,
        objects: ObjectStore,
        folder: Path,
        settings: MediaSettings,
        node: str,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._chats = store.transfer
        self._rows = store.media_files
        self._objects = objects
        self._folder = folder
        self._settings = settings
        self._node = node
        self._wall = wall
        self._begun = False
        self._unsent = anyio.Event()
        self._unsent.set()  # An earlier process may have left some.
        self._young: set[str] = set()
        self._storing = KeyedLimiter(1)
        self._known: set[Path] = set()
        """Files of this machine that have or had a row."""
        self._started = wall()

    async def begin(self) -> None:
        """Make rows and objects for the media of a bot that ran as one process before. Raises
        `StoreError` and `OSError`."""
        marker = self._folder / SHARED_MARKER
        if not await to_thread.run_sync(marker.exists):
            known = {chat_key.file_name: chat_key for chat_key, _ in await self._chats.chats()}
            for path in await to_thread.run_sync(_media_below, self._folder):
                if (chat_key := known.get(path.parent.name)) is not None:
                    digest, size = await to_thread.run_sync(digest_and_size, path)
                    await self.store(chat_key, path, sha256=digest, size=size)
            await to_thread.run_sync(_touch, marker)
        self._begun = True

    async def live(self) -> None:
        """Store the media that could not be stored as objects before, until cancelled."""
        while True:
            await self._unsent.wait()
            self._unsent = anyio.Event()
            try:
                await self._store_unsent()
            except (StoreError, ClusterError, OSError) as error:
                logger.warning("media wait until the object store takes them: {}", error)
                self._unsent.set()
            await anyio.sleep(_AGAIN_S)

    async def store(self, chat_key: ChatKey, path: Path, *, sha256: str, size: int) -> None:
        """See `SharedMedia.store`."""
        row = MediaFileRow(
            object_name=object_of(path),
            chat_key=chat_key,
            sha256=sha256,
            size=size,
            node=self._node,
        )
        async with self._storing.of(row.object_name):
            await self._store(row, path)

    async def _store(self, row: MediaFileRow, path: Path) -> None:
        chat_key = row.chat_key
        try:
            if not (there := await self._rows.touch(row.object_name)):
                await self._rows.put(row)
            self._note_row(path)
            if there:
                return
        except StoreError as error:
            # No error is raised: if the database cannot be written to, the message that has the
            # medium cannot be stored either.
            logger.error("a medium of {} is not shared: {}", chat_key, error)
            return
        try:
            await self._put(row, path)
            await self._keep_quota(chat_key, row.object_name)
        except (StoreError, ClusterError, OSError) as error:
            logger.warning("a medium of {} waits for the object store: {}", chat_key, error)
            self._unsent.set()

    async def fetch(self, path: Path) -> ChatKey | None:
        """See `SharedMedia.fetch`."""
        name = object_of(path)
        unfinished = path.with_name(f"{uuid.uuid4().hex}.part")
        try:
            row = await self._rows.get(name)
            if row is None:
                return None
            await to_thread.run_sync(_make_room, path.parent, row.size)
            await fetch_exactly(self._objects, name, unfinished, sha256=row.sha256, size=row.size)
            await to_thread.run_sync(unfinished.replace, path)
            self._note_row(path)
            if await self._rows.get(name) is None:  # It was erased meanwhile.
                await to_thread.run_sync(_remove, [path])
                return None
        except ObjectDamaged as error:
            logger.error("the medium is not used: {}", error)
            return None
        except ObjectMissing:
            logger.info("the medium {} is not in the object store", name)
            return None
        except (StoreError, ClusterError, OSError) as error:
            logger.warning("the medium {} cannot be fetched now: {}", name, error)
            return None
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_remove, [unfinished])
        return row.chat_key

    async def forget(self, chat_key: ChatKey, path: Path) -> bool:
        """See `SharedMedia.forget`."""
        name = object_of(path)
        try:
            there = await self._rows.get(name) is not None
            await self._rows.drop(chat_key, [name], tell=True)
            return await self._objects.delete(name) or there
        except (StoreError, ClusterError) as error:
            raise OSError(errno.EIO, f"the object {name} is not deleted yet: {error}") from error

    async def forget_chat(self, chat_key: ChatKey) -> None:
        """See `SharedMedia.forget_chat`."""
        try:
            await self._rows.drop_chat(chat_key)
            for name in await self._objects.names(f"{MEDIA}{_digest_of_chat(chat_key.file_name)}/"):
                await self._objects.delete(name)
        except (StoreError, ClusterError) as error:
            text = f"objects of {chat_key} are not deleted yet: {error}"
            raise OSError(errno.EIO, text) from error

    async def tidy(self, *, before: float, total_bytes: int) -> int:
        """See `SharedMedia.tidy`."""
        gone = 0
        try:
            while rows := await self._rows.oldest(before=before, limit=_SLICE):
                await self._delete(rows)
                gone += len(rows)
            if (used := await self._rows.size()) > total_bytes:
                gone += await self._shrink(used, total_bytes * 9 // 10)
        except (StoreError, ClusterError) as error:
            raise OSError(errno.EIO, f"old media stay in the object store: {error}") from error
        return gone

    async def follow(self, name: str) -> None:
        """Delete the files of this machine whose medium was erased. ``name`` stands for the chat
        whose rows have changed; if it is empty, all chats are looked through. This is a follower of
        `ChangeTopic.MEDIA_FILES`. Raises `StoreError` and `OSError`."""
        if not self._begun:
            return
        folder = self._folder
        if name:
            chat_key = self._rows.notices.chat_of(name)
            if chat_key is None:
                return
            folder /= chat_key.file_name
        await self._compare(folder)

    async def _compare(self, folder: Path) -> None:
        """Delete the media below a folder that have no row."""
        here = {object_of(path): path for path in await to_thread.run_sync(_media_below, folder)}
        known = await self._rows.known(here.keys())
        lost = [path for name, path in here.items() if name not in known]
        old = max(self._wall() - _YOUNG_S, self._started)
        gone = await to_thread.run_sync(_remove_old, lost, frozenset(self._known), old)
        self._known.difference_update(gone)
        young = {path.parent.name for path in lost} - {path.parent.name for path in gone}
        if young:
            self._young |= young
            self._unsent.set()
        if gone:
            logger.info("{} media were erased by another process and are deleted here", len(gone))

    async def _store_unsent(self) -> None:
        """Store the objects that are missing, and look again at young files without a row."""
        for row in await self._rows.not_ready(self._node):
            path = self._path_of(row)
            if await to_thread.run_sync(path.is_file):
                await self.store(row.chat_key, path, sha256=row.sha256, size=row.size)
            else:
                await self._rows.drop(row.chat_key, [row.object_name], tell=False)
        young, self._young = self._young, set()
        for folder in young:
            await self._compare(self._folder / folder)

    def _path_of(self, row: MediaFileRow) -> Path:
        return self._folder / row.chat_key.file_name / row.object_name.rpartition("/")[2]

    def _note_row(self, path: Path) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(path)

    async def _put(self, row: MediaFileRow, path: Path) -> None:
        await self._objects.put(row.object_name, path)
        if not await self._rows.note_ready(row.object_name):  # It was erased meanwhile.
            await self._objects.delete(row.object_name)

    async def _keep_quota(self, chat_key: ChatKey, newest: str) -> None:
        """Delete the chat's oldest media if all together exceed the quota of a chat."""
        most = self._settings.chat_quota_bytes
        if (used := await self._rows.size(chat_key)) > most:
            await self._shrink(used, most * 9 // 10, chat_key, spare=newest)

    async def _shrink(
        self, used: int, most: int, chat_key: ChatKey | None = None, *, spare: str = ""
    ) -> int:
        """Delete the oldest media, of one chat or of all, until they have at most ``most`` bytes.
        Returns how many were deleted."""
        gone = 0
        while used > most:
            rows = await self._rows.oldest(before=_EVER, chat_key=chat_key, limit=_SLICE)
            old = []
            for row in rows:
                if used > most and row.object_name != spare:
                    used -= row.size
                    old.append(row)
            if not old:
                break
            await self._delete(old)
            gone += len(old)
        return gone

    async def _delete(self, rows: Iterable[MediaFileRow]) -> None:
        for row in rows:
            await self._rows.drop(row.chat_key, [row.object_name], tell=False)
            await self._objects.delete(row.object_name)


def object_of(path: Path) -> str:
    """Return the name of the object of a medium. It does not contain the chat key, so that a
    list of all objects does not say who wrote."""
    return f"{MEDIA}{_digest_of_chat(path.parent.name)}/{path.name}"


def _digest_of_chat(folder: str) -> str:
    return hashlib.blake2b(folder.encode(), digest_size=16).hexdigest()


def _media_below(folder: Path) -> list[Path]:
    """Return the files of media in the folder ``uploads``, or in the folder of one chat."""
    return [path for path in folder.rglob("*") if MEDIUM.search(path.as_posix())]


def _make_room(folder: Path, size: int) -> None:
    """Make a folder. Raises `OSError`, also if a file of this size would fill the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize - size < _LEAST_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _touch(marker: Path) -> None:
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch(mode=0o600)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _remove_old(paths: Iterable[Path], known: frozenset[Path], before: float) -> list[Path]:
    """Delete files that had a row, or that were last changed before ``before`` (seconds since
    1970). Returns the deleted files."""
    gone = []
    for path in paths:
        try:
            changed = path.stat().st_ctime
        except FileNotFoundError:
            continue
        if path in known or changed < before:
            path.unlink(missing_ok=True)
            gone.append(path)
    return gone
