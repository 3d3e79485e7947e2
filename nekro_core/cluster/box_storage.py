"""Shares the files of named boxes between processes, through the object store.

`FolderStorage` writes the files of a box into archives in a folder of this machine: an archive of
all files, and archives of later changes. `SharedBoxStorage` puts each new archive into the object
store, and then writes a row that lists the objects (`BoxFilesRow`). The row carries the ownership
of the chat, so a process that has lost the chat cannot replace the files of the next owner. The
next owner fetches the archives that the row lists.
"""

import errno
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.cluster.errors import ClusterError, ObjectMissing
from nekro_core.cluster.objects import ObjectStore, digest_and_size, fetch_exactly
from nekro_core.sandbox.box import Box
from nekro_core.sandbox.named import BoxesTakenOver, BoxRecord, FolderStorage
from nekro_core.sandbox.named.storage import SavedState
from nekro_core.store import (
    BoxFilesRow,
    Ownership,
    OwnershipLost,
    Store,
    StoreError,
    StoreUnavailable,
    writing_as,
)
from nekro_core.store.ownership import current_ownership
from nekro_core.system.atomic_files import write_whole

BOXES = "boxes/"
"""The beginning of the names of the objects of boxes."""
_COPY = ".shared"
"""The ending of the file that says of which objects the archives of a box on this machine are
copies. Archives without such a file beside them are from a bot that ran as one process. They are
shared at the next save."""
_LAST_WORDS_S = 5.0
"""Time limit in seconds for deleting the objects of a save that failed."""


class BoxPart(msgspec.Struct, frozen=True, kw_only=True):
    """An archive of a box in the object store.

    Attributes:
        object_name: The name of the object.
        suffix: What follows the box's name in the name of the file.
        sha256: The digest of the content in hex.
        size: The size in bytes.
    """

    object_name: str
    suffix: str
    sha256: str
    size: int


class LocalCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What the archives of a box on this machine are copies of."""

    owner: str
    name: str
    mark: str
    parts: tuple[BoxPart, ...]


_decode_parts = msgspec.json.Decoder(tuple[BoxPart, ...]).decode
_decode_copy = msgspec.json.Decoder(LocalCopy).decode


class SharedBoxStorage:
    """Implements `nekro_core.sandbox.named.storage.BoxStorage` for the boxes of chats.

    Boxes are also saved by tasks that belong to no chat. Such a save carries the ownership that the
    process had when a turn of the chat last used the boxes.

    Args:
        files: The archives on this machine.
        store: The database.
        objects: The object store.
    """

    def __init__(self, files: FolderStorage, store: Store, objects: ObjectStore) -> None:
        self._files = files
        self._rows = store.box_files
        self._objects = objects
        self._owners: dict[str, Ownership] = {}
        self._shared: dict[tuple[str, str], tuple[str, tuple[BoxPart, ...]]] = {}
        """For each box that this process has saved or restored: `SavedState.mark` of its full
        archive, and its objects."""
        self._local: dict[tuple[str, str], SavedState] = {}
        """For each such box: the state of the archives on this machine. They are newer than the
        objects if the last objects could not be stored."""

    saves_each_run = True

    def version(self, owner: str) -> int:
        """See `BoxStorage.version`. It is the epoch of the chat's owner."""
        if (now := current_ownership()) is not None:
            self._owners[owner] = now
        known = self._owners.get(owner)
        return known.epoch if known is not None else 0

    def shares(self, owner: str, name: str) -> bool:
        """Return whether this process has saved or restored the box, and it had files or a
        record."""
        return (owner, name) in self._shared

    async def records(self, owner: str) -> Mapping[str, BoxRecord | None]:
        """See `BoxStorage.records`."""
        self.version(owner)
        try:
            rows = await self._rows.of_chat(ChatKey.parse(owner))
        except StoreError as error:
            text = f"the boxes of {owner} cannot be read: {error}"
            raise OSError(_number_of(error), text) from error
        found: dict[str, BoxRecord | None] = {row.name: _record_of(row) for row in rows}
        for name, record in (await self._files.records(owner)).items():
            if name not in found and not await self._is_copy(owner, name):
                found[name] = record
        return found

    async def stored_bytes(self, owner: str) -> int:
        """See `BoxStorage.stored_bytes`."""
        try:
            return sum(row.size for row in await self._rows.of_chat(ChatKey.parse(owner)))
        except StoreError as error:
            raise OSError(errno.EIO, f"the boxes of {owner} cannot be read: {error}") from error

    async def count(self) -> int:
        """See `BoxStorage.count`. It counts the boxes of this machine."""
        return await self._files.count()

    async def remember(self, owner: str, name: str, record: BoxRecord) -> None:
        """See `BoxStorage.remember`."""
        await self._files.remember(owner, name, record)
        mark, parts = self._shared.get((owner, name), ("", ()))
        await self._write_row(owner, name, mark, parts)

    async def save(self, owner: str, name: str, box: Box, before: SavedState) -> SavedState:
        """See `BoxStorage.save`. After an error, the next save stores what is missing."""
        box_id = (owner, name)
        local = self._local.get(box_id)
        if local is not None and before.mark:
            before = local
        state = await self._files.save(owner, name, box, before)
        self._local[box_id] = state
        mark, parts = self._shared.get(box_id, ("", ()))
        if state.mark != mark:
            parts = ()
        archives = await self._files.parts(owner, name) if state.mark else []
        if state.mark == mark and len(archives) == len(parts):
            return state
        await self._share(owner, name, state.mark, parts, archives[len(parts) :])
        return state

    async def restore(self, owner: str, name: str, box: Box) -> SavedState:
        """See `BoxStorage.restore`. If an object is missing, the box starts without files."""
        box_id = (owner, name)
        self._local.pop(box_id, None)
        self._shared.pop(box_id, None)
        try:
            row = await self._rows.get(ChatKey.parse(owner), name)
            if row is not None:
                await self._fetch(row)
                self._shared[box_id] = (row.mark, parts_of(row))
            elif await self._is_copy(owner, name):
                return SavedState()  # Another process has deleted the box.
        except ObjectMissing as error:
            logger.error("{} of {} starts without files: {}", name, owner, error)
            return SavedState()
        except (StoreError, ClusterError) as error:
            raise OSError(_number_of(error), str(error)) from error
        state = await self._files.restore(owner, name, box)
        self._local[box_id] = state
        return state

    async def forget(self, owner: str, name: str) -> None:
        """See `BoxStorage.forget`."""
        try:
            chat_key = ChatKey.parse(owner)
            row = await self._rows.get(chat_key, name)
            with writing_as(self._ownership(owner)):
                await self._rows.drop(chat_key, name)
            if row is not None:
                await self._delete(parts_of(row))
        except OwnershipLost as error:
            logger.warning("{} of {} is left to its owner: {}", name, owner, error)
        except (StoreError, ClusterError) as error:
            text = f"the box {name} is not deleted everywhere yet: {error}"
            raise OSError(errno.EIO, text) from error
        await self.forget_here(owner, name)

    async def forget_owner(self, owner: str) -> None:
        """See `BoxStorage.forget_owner`. Also deletes objects without a row, which a process left
        when it was killed."""
        chat_key = ChatKey.parse(owner)
        try:
            with writing_as(self._ownership(owner)):
                await self._rows.drop(chat_key)
            for name in await self._objects.names(_folder_of(owner)):
                await self._objects.delete(name)
        except OwnershipLost as error:
            logger.warning("the boxes of {} are left to their owner: {}", owner, error)
        except (StoreError, ClusterError) as error:
            text = f"the boxes of {owner} are not deleted everywhere yet: {error}"
            raise OSError(errno.EIO, text) from error

    async def let_go(self, owner: str) -> None:
        """See `BoxStorage.let_go`. The copies on this machine are deleted, unless they have changes
        that are not in the object store."""
        for copy in await self.copies(self._files.folder_of(owner)):
            if copy.owner != owner or not await self._is_complete(copy):
                continue
            await self.forget_here(owner, copy.name)
        self._owners.pop(owner, None)

    async def _is_complete(self, copy: LocalCopy) -> bool:
        local = self._local.get((copy.owner, copy.name))
        archives = await self._files.parts(copy.owner, copy.name)
        same_mark = local is None or local.mark == copy.mark
        return same_mark and len(archives) == len(copy.parts)

    async def forget_here(self, owner: str, name: str) -> None:
        """Delete the files of a box on this machine. Raises `OSError`."""
        self._local.pop((owner, name), None)
        self._shared.pop((owner, name), None)
        await anyio.Path(self._files.place(owner, name, _COPY)).unlink(missing_ok=True)
        await self._files.forget(owner, name)

    async def share_archives(self, owner: str) -> None:
        """Make an object of each archive on this machine, and a row of each box, for all boxes of a
        chat. They must not have objects yet. Raises `OSError`."""
        for name in await self._files.records(owner):
            archives = await self._files.parts(owner, name)
            mark = await self._files.mark(owner, name) if archives else ""
            await self._share(owner, name, mark, (), archives)

    async def copies(self, folder: Path) -> list[LocalCopy]:
        """Return the boxes below a folder of this machine that are copies of objects, beginning
        with the copy that was not changed for longest."""
        return await to_thread.run_sync(_copies_below, folder)

    async def _make_room(self, size: int, *, spare: tuple[str, str]) -> None:
        """If there is no room for ``size`` bytes, delete copies of boxes that this process has not
        used since it started, but not of the box ``spare``."""
        if not await self._files.lacks_room(size):
            return
        for copy in await self.copies(self._files.folder):
            if (box_id := (copy.owner, copy.name)) in self._local or box_id == spare:
                continue
            await self.forget_here(copy.owner, copy.name)
            if not await self._files.lacks_room(size):
                return
        raise OSError(errno.EDQUOT, "the files of all boxes take as much room as they may")

    async def _share(
        self,
        owner: str,
        name: str,
        mark: str,
        parts: tuple[BoxPart, ...],
        archives: Sequence[Path],
    ) -> None:
        """Store new archives as objects, and write the row of the box. Raises `OSError` and
        `BoxesTakenOver`; then these objects are deleted again."""
        earlier = self._shared.get((owner, name), ("", ()))[1]
        new: list[BoxPart] = []
        done = False
        try:
            for path in archives:
                digest, size = await to_thread.run_sync(digest_and_size, path)
                part = BoxPart(
                    object_name=f"{_folder_of(owner)}{uuid.uuid4().hex}",
                    suffix=path.name.removeprefix(name),
                    sha256=digest,
                    size=size,
                )
                new.append(part)
                await self._objects.put(part.object_name, path)
            await self._write_row(owner, name, mark, (*parts, *new))
            done = True
        except ClusterError as error:
            raise OSError(errno.EIO, f"the object store takes no files: {error}") from error
        finally:
            unused = set(earlier) - {*parts} if done else set(new)
            with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                await self._try_to_delete(unused)

    async def _write_row(
        self, owner: str, name: str, mark: str, parts: tuple[BoxPart, ...]
    ) -> None:
        """Write the row of a box, and note the objects in a file beside the archives."""
        record = (await self._files.records(owner)).get(name)
        row = BoxFilesRow(
            chat_key=ChatKey.parse(owner),
            name=name,
            record=msgspec.json.encode(record).decode() if record is not None else "",
            mark=mark,
            parts=msgspec.json.encode(parts).decode(),
            size=sum(part.size for part in parts),
        )
        try:
            with writing_as(self._ownership(owner)):
                await self._rows.put(row)
        except OwnershipLost as error:
            raise BoxesTakenOver(str(error)) from error
        except StoreError as error:
            raise OSError(errno.EIO, f"the files of a box are not stored: {error}") from error
        self._shared[owner, name] = (mark, parts)
        await self._note_copy(owner, name, mark, parts)

    def _ownership(self, owner: str) -> Ownership | None:
        """Return the ownership of the chat for which the current task works. In a task of no chat,
        return the last ownership that `version` has seen."""
        self.version(owner)
        return self._owners.get(owner)

    async def _fetch(self, row: BoxFilesRow) -> None:
        """Make the archives on this machine the same as the objects of a row. Raises `ClusterError`
        and `OSError`."""
        owner, parts = str(row.chat_key), parts_of(row)
        copy = await self._read_copy(owner, row.name)
        here = set(copy.parts) if copy is not None and copy.mark == row.mark else set()
        names = {archive.name for archive in await self._files.parts(owner, row.name)}
        places = {part: self._files.place(owner, row.name, part.suffix) for part in parts}
        missing = [part for part in parts if part not in here or places[part].name not in names]
        if missing:
            await self._make_room(sum(part.size for part in missing), spare=(owner, row.name))
        for part in missing:
            await self._fetch_part(part, places[part])
        for archive in (await self._files.parts(owner, row.name))[len(parts) :]:
            await anyio.Path(archive).unlink(missing_ok=True)
        if (record := _record_of(row)) is not None:
            await self._files.remember(owner, row.name, record)
        await self._note_copy(owner, row.name, row.mark, parts)

    async def _fetch_part(self, part: BoxPart, path: Path) -> None:
        unfinished = path.with_name(f"{path.name}.new")
        await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
        try:
            await fetch_exactly(
                self._objects, part.object_name, unfinished, sha256=part.sha256, size=part.size
            )
            await anyio.Path(unfinished).replace(path)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.Path(unfinished).unlink(missing_ok=True)

    async def _note_copy(
        self, owner: str, name: str, mark: str, parts: tuple[BoxPart, ...]
    ) -> None:
        copy = LocalCopy(owner=owner, name=name, mark=mark, parts=parts)
        path = self._files.place(owner, name, _COPY)
        await to_thread.run_sync(write_whole, path, msgspec.json.encode(copy))

    async def _read_copy(self, owner: str, name: str) -> LocalCopy | None:
        return await to_thread.run_sync(_copy_in, self._files.place(owner, name, _COPY))

    async def _is_copy(self, owner: str, name: str) -> bool:
        """Return whether the archives of a box on this machine are copies of objects."""
        return await self._read_copy(owner, name) is not None

    async def _delete(self, parts: Sequence[BoxPart]) -> None:
        for part in parts:
            await self._objects.delete(part.object_name)

    async def _try_to_delete(self, parts: set[BoxPart]) -> None:
        for part in parts:
            try:
                await self._objects.delete(part.object_name)
            except (ClusterError, OSError) as error:
                logger.warning("the object {} stays for now: {}", part.object_name, error)


def _number_of(error: StoreError | ClusterError) -> int:
    """Return the number for the `OSError` that `BoxStorage.records` raises for an error."""
    # A database server that starts again answers after some seconds. For how long an object store
    # is away, nobody knows.
    return errno.EAGAIN if isinstance(error, StoreUnavailable) else errno.EIO


def objects_in(parts: str) -> set[str]:
    """Return the names of the objects that the field ``parts`` of a row lists."""
    return {part.object_name for part in _decode_parts(parts)}


def _folder_of(owner: str) -> str:
    """Return the beginning of the names of a chat's objects. It does not contain the chat key,
    so that a list of all objects does not say who wrote."""
    return f"{BOXES}{hashlib.blake2b(owner.encode(), digest_size=16).hexdigest()}/"


def parts_of(row: BoxFilesRow) -> tuple[BoxPart, ...]:
    """Return the objects of a box, in the order in which they are restored."""
    return _decode_parts(row.parts)


def _record_of(row: BoxFilesRow) -> BoxRecord | None:
    return msgspec.json.decode(row.record, type=BoxRecord) if row.record else None


def _copy_in(path: Path) -> LocalCopy | None:
    try:
        return _decode_copy(path.read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        logger.warning("{} cannot be read, the files are fetched again: {}", path, error)
        return LocalCopy(owner="", name="", mark="", parts=())


def _copies_below(folder: Path) -> list[LocalCopy]:
    paths = sorted(folder.rglob(f"*{_COPY}"), key=lambda path: path.stat().st_mtime)
    found = map(_copy_in, paths)
    return [copy for copy in found if copy is not None and copy.owner]
