"""Stores the records and the files of named boxes. So the processes of an unused box can be ended
without loss."""

import contextlib
import errno
import hashlib
import logging
import os
import re
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import anyio
import msgspec

from nekro_core.sandbox.box import Box, BoxFileError, SandboxError
from nekro_core.sandbox.named.layers import HEAD_BYTES, InvalidArchive, layer_head, merge, read_head

_log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""The valid names of boxes. A name becomes a part of file names."""

_FILES = ".tar"
_RECORD = ".json"
_SET_ASIDE = ".tar.unreadable"
_TRIES = 5
_UNFINISHED = ".new"
_LAYER = "+"
_NO_MARK = "-"
_MAX_LAYERS = 16
"""Largest number of archives of changes. When a box has this many archives of changes, or when they
are larger than the archive of all files, the next save makes a new archive of all files."""
_MAX_FOLDER = 100


class BoxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored properties of a box. ``sleep_after_s`` seconds after the last use, the box is put
    to sleep."""

    image: str
    sleep_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """The last save of a box's files. ``state`` is the box's name for the saved state (see
    `Box.export_changes`). ``mark`` is the text that identifies the full archive, and
    ``whole_bytes`` is the size of this archive. ``layers`` is the number of the later archives of
    changes, and ``layers_bytes`` is their size."""

    state: str = ""
    mark: str = ""
    whole_bytes: int = 0
    layers: int = 0
    layers_bytes: int = 0


class BoxesTakenOver(SandboxError):
    """Another process uses the boxes of this owner now. The running boxes of this process must end
    without being saved."""


class BoxStorage(Protocol):
    """Stores boxes. The caller never makes two calls for one box at the same time."""

    @property
    def saves_each_run(self) -> bool:
        """Whether a box is saved after each run. Otherwise it is saved when its user gives it
        back."""

    def version(self, owner: str) -> int:
        """Return a number that changes when another process may have changed the owner's boxes.
        Then all that this process knows about these boxes is out of date."""

    async def records(self, owner: str) -> Mapping[str, BoxRecord | None]:
        """Return the stored boxes of an owner by name. A value is None if the storage has the files
        of a box but not its record. Raises `OSError`, with ``errno.EAGAIN`` if the storage can
        probably be read again soon."""

    async def stored_bytes(self, owner: str) -> int:
        """Return how many bytes the stored files and records of an owner's boxes need."""

    async def remember(self, owner: str, name: str, record: BoxRecord) -> None:
        """Store the record of a box. Raises `OSError`."""

    async def save(self, owner: str, name: str, box: Box, before: SavedState) -> SavedState:
        """Store a box's files if they differ from ``before``. If the box has no files and never had
        any, nothing is stored.

        Raises `OSError`, `BoxFileError`, `BoxLost` and `BoxesTakenOver`. After an error the files
        of the last save are still stored.
        """

    async def restore(self, owner: str, name: str, box: Box) -> SavedState:
        """Put the stored files into a new box. Raises `OSError`, as `records` does, and `BoxLost`.

        If the stored archive is damaged, it is renamed, an error is logged, and the box starts
        without files.
        """

    async def count(self) -> int:
        """Return how many boxes of all owners are stored."""

    async def forget(self, owner: str, name: str) -> None:
        """Delete the stored record and files of a box. Raises `OSError`."""

    async def forget_owner(self, owner: str) -> None:
        """Delete what is left of an owner, after all its boxes were forgotten. Raises
        `OSError`."""

    async def let_go(self, owner: str) -> None:
        """Note that another process uses the owner's boxes from now on. Raises `OSError`."""


class FolderStorage:
    """Stores boxes in a folder for each owner, with a record and archives for each box.

    ``NAME.tar`` has all files. ``NAME.tar+1`` and so on have later changes. Each of them begins
    with the mark of ``NAME.tar``. A file with another mark is left over from an earlier
    ``NAME.tar`` and is ignored. ``folder_name`` returns the name of an owner's folder, which must
    be different for each owner.
    """

    def __init__(
        self,
        folder: Path,
        folder_name: Callable[[str], str] | None = None,
        *,
        most_bytes: int = 0,
    ) -> None:
        """``most_bytes`` limits the stored files of all boxes together. 0 means half of the disk.
        Other data can use the other half."""
        self._folder = folder
        self._folder_name = folder_name or _folder_name
        self._most_bytes = most_bytes
        self._stored = 0
        """The size of all files in the folder, in bytes. It is valid only if ``_counted`` is
        true."""
        self._counted = False

    saves_each_run = False

    def version(self, owner: str) -> int:  # noqa: ARG002 - no other process uses the folder
        """See `BoxStorage.version`."""
        return 0

    async def parts(self, owner: str, name: str) -> Sequence[Path]:
        """Return the archive of all files of a box and its archives of changes, in the order in
        which they are restored."""
        return await anyio.to_thread.run_sync(
            _parts, self._folder / self._folder_name(owner) / f"{name}{_FILES}"
        )

    async def mark(self, owner: str, name: str) -> str:
        """Return `SavedState.mark` of a box that has files. Raises `OSError`."""
        path = self.place(owner, name, _FILES)
        return await anyio.to_thread.run_sync(_mark_of, path) or _NO_MARK

    @property
    def folder(self) -> Path:
        """The folder of the boxes of all owners."""
        return self._folder

    def place(self, owner: str, name: str, suffix: str) -> Path:
        """Return the path of a file of a box, whose name is the box's name and this suffix."""
        return self.folder_of(owner) / f"{name}{suffix}"

    def folder_of(self, owner: str) -> Path:
        """The folder of an owner's boxes."""
        return self._folder / self._folder_name(owner)

    async def records(self, owner: str) -> Mapping[str, BoxRecord | None]:
        """See `BoxStorage.records`."""
        return await anyio.to_thread.run_sync(_records, self._folder / self._folder_name(owner))

    async def stored_bytes(self, owner: str) -> int:
        """See `BoxStorage.stored_bytes`."""
        return await anyio.to_thread.run_sync(_bytes_below, self._folder / self._folder_name(owner))

    async def remember(self, owner: str, name: str, record: BoxRecord) -> None:
        """See `BoxStorage.remember`."""
        await _replace(self._path(owner, name, _RECORD), [msgspec.json.encode(record)])

    async def save(self, owner: str, name: str, box: Box, before: SavedState) -> SavedState:
        """See `BoxStorage.save`."""
        mergeable = before.layers < _MAX_LAYERS and before.layers_bytes <= before.whole_bytes
        changes = await box.export_changes(before.state if mergeable else "")
        path = self._path(owner, name, _FILES)
        if changes.whole:
            if not changes.entries and not before.mark:
                # The box has no files now, and none are stored.
                return SavedState(state=changes.state)
            mark = secrets.token_hex(8)
            await self._put(path, [layer_head(mark), changes.archive])
            await anyio.to_thread.run_sync(_forget_layers, Path(path))
            self._counted = False
            return SavedState(state=changes.state, mark=mark, whole_bytes=len(changes.archive))
        if not changes.entries and not changes.removed:
            return replace(before, state=changes.state)
        if not before.mark:
            await self._put(path, [layer_head(mark := secrets.token_hex(8)), changes.archive])
            return SavedState(state=changes.state, mark=mark, whole_bytes=len(changes.archive))
        layers = before.layers + 1
        head = layer_head(before.mark, changes.removed)
        await self._put(path.with_name(_layer_name(path, layers)), [head, changes.archive])
        return replace(
            before,
            state=changes.state,
            layers=layers,
            layers_bytes=before.layers_bytes + len(changes.archive),
        )

    async def restore(self, owner: str, name: str, box: Box) -> SavedState:
        """See `BoxStorage.restore`."""
        path = self._path(owner, name, _FILES)
        found = await anyio.to_thread.run_sync(_read_layers, Path(path))
        if not found:
            return SavedState()
        mark, archives = found
        try:
            merged = await anyio.to_thread.run_sync(merge, archives)
            await box.import_files(merged)
        except (BoxFileError, InvalidArchive) as error:
            # The archive is renamed, so that the next save does not overwrite it.
            _log.error("%s: saved files of %s were set aside: %s", path, owner, error)
            await path.rename(self._path(owner, name, _SET_ASIDE))
            return SavedState()
        return SavedState(
            # Changes cannot be added to an archive without a mark. For such an archive the state is
            # empty, so that the next save stores all files.
            state=await box.note_files() if mark else "",
            mark=mark or _NO_MARK,
            whole_bytes=len(archives[0]),
            layers=len(archives) - 1,
            layers_bytes=sum(map(len, archives[1:])),
        )

    async def count(self) -> int:
        """See `BoxStorage.count`."""
        return await anyio.to_thread.run_sync(_stored_boxes, self._folder)

    async def forget(self, owner: str, name: str) -> None:
        """See `BoxStorage.forget`."""
        self._counted = False
        path = self._path(owner, name, _FILES)
        await anyio.to_thread.run_sync(_forget_layers, Path(path))
        for suffix in (_RECORD, _FILES, _SET_ASIDE):
            await self._path(owner, name, suffix).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # The folder also has files of other boxes.
            await path.parent.rmdir()

    async def forget_owner(self, owner: str) -> None:
        """See `BoxStorage.forget_owner`."""

    async def let_go(self, owner: str) -> None:
        """See `BoxStorage.let_go`."""

    async def lacks_room(self, more: int) -> bool:
        """Return whether the files of all boxes would be larger than the limit with this many bytes
        more."""
        if not self._most_bytes:
            self._most_bytes = await anyio.to_thread.run_sync(_half_of_disk, self._folder)
        self._stored = await anyio.to_thread.run_sync(_bytes_below, self._folder)
        self._counted = True
        return self._stored + more > self._most_bytes

    async def _put(self, path: anyio.Path, pieces: Sequence[bytes]) -> None:
        """Write a file. Raises `OSError`, also if the files of all boxes together would then be
        larger than the limit."""
        if not self._counted:
            self._stored = await anyio.to_thread.run_sync(_bytes_below, self._folder)
            self._counted = True
        if not self._most_bytes:
            self._most_bytes = await anyio.to_thread.run_sync(_half_of_disk, self._folder)
        there = await anyio.to_thread.run_sync(_bytes_of, Path(path))
        more = sum(map(len, pieces)) - there
        if more > 0 and self._stored + more > self._most_bytes:
            most = self._most_bytes // 1024**2
            message = f"files of all boxes would take more than {most} MB together"
            raise OSError(errno.EDQUOT, message)
        await _replace(path, pieces)
        self._stored += more

    def _path(self, owner: str, name: str, suffix: str) -> anyio.Path:
        return anyio.Path(self._folder / self._folder_name(owner) / f"{name}{suffix}")


def _records(folder: Path) -> dict[str, BoxRecord | None]:
    found: dict[str, BoxRecord | None] = {}
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return found
    for path in paths:
        if path.suffix == _UNFINISHED:  # A process was killed while it wrote this file.
            path.unlink(missing_ok=True)
        if path.suffix not in (_FILES, _RECORD) or not NAME.fullmatch(path.stem):
            continue
        found.setdefault(path.stem, None)
        if path.suffix == _RECORD:
            try:
                found[path.stem] = msgspec.json.decode(path.read_bytes(), type=BoxRecord)
            except msgspec.MsgspecError as error:
                _log.error("%s is not a record of a box; default values are used: %s", path, error)
    return found


def _stored_boxes(folder: Path) -> int:
    return sum(
        len({Path(name).stem for name in names if Path(name).suffix in (_FILES, _RECORD)})
        for _, _, names in os.walk(folder)
    )


def _bytes_below(folder: Path) -> int:
    return sum(_bytes_of(Path(at, name)) for at, _, names in os.walk(folder) for name in names)


def _bytes_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _half_of_disk(folder: Path) -> int:
    """Return half the size of the file system in which this folder is, or will be made."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).total // 2


def _layer_name(path: Path | anyio.Path, number: int) -> str:
    return f"{path.name}{_LAYER}{number}"


def _forget_layers(path: Path) -> None:
    for number in range(1, _MAX_LAYERS + 1):
        path.with_name(_layer_name(path, number)).unlink(missing_ok=True)


def _read_layers(path: Path) -> tuple[str, list[bytes]] | None:
    """Return the mark, and a list of the full archive and its archives of changes, in order.
    Returns None if no archive is stored."""
    try:
        archives = [path.read_bytes()]
    except FileNotFoundError:
        return None
    mark, _ = read_head(archives[0])
    while mark:
        try:
            layer = path.with_name(_layer_name(path, len(archives))).read_bytes()
        except FileNotFoundError:
            break
        if read_head(layer)[0] != mark:
            break  # This archive of changes belongs to an earlier full archive.
        archives.append(layer)
    return mark, archives


def _parts(path: Path) -> list[Path]:
    if not path.exists():
        return []
    found = [path]
    mark = _mark_of(path)
    while mark:
        layer = path.with_name(_layer_name(path, len(found)))
        if not layer.exists() or _mark_of(layer) != mark:
            break
        found.append(layer)
    return found


def _mark_of(path: Path) -> str:
    """Return the mark at the beginning of an archive; empty if it has none."""
    with path.open("rb") as file:
        beginning = file.read(tarfile.BLOCKSIZE)
        try:
            size = tarfile.TarInfo.frombuf(beginning, "utf-8", "surrogateescape").size
        except tarfile.TarError:
            return ""
        return read_head(beginning + file.read(min(size, HEAD_BYTES)))[0]


async def _replace(path: anyio.Path, pieces: Iterable[bytes]) -> None:
    temporary = path.with_name(path.name + _UNFINISHED)
    async with await _opened(temporary) as file:
        for piece in pieces:
            await file.write(piece)
    await temporary.replace(path)


async def _opened(path: anyio.Path) -> anyio.AsyncFile[bytes]:
    """Open a file for writing, and make its folder. `FolderStorage.forget` for another box may
    remove the folder before the file is open. In this case, this function tries again."""
    for _ in range(_TRIES - 1):
        await path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return await path.open("wb")
    await path.parent.mkdir(parents=True, exist_ok=True)
    return await path.open("wb")


def _folder_name(owner: str) -> str:
    name = quote(owner, safe="", errors="surrogatepass")
    # A digest is added if the name is empty or long, or has "~", dots or capital letters. "~" marks
    # names that have a digest, ``.`` and ``..`` cannot be made, and some file systems do not
    # distinguish capital from small letters.
    if 0 < len(name) <= _MAX_FOLDER and name == name.lower() and not set(name) & {"~", "."}:
        return name
    digest = hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{name.lower()[: _MAX_FOLDER - 40].replace('.', '_')}~{digest}"
