"""Where named boxes lie while they sleep: what they are, and their files."""

import hashlib
import io
import logging
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import anyio
import msgspec

from nekro_core.sandbox.box import Box, BoxFileError

_log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What a box may be called: also a file's name on every system."""

_FILES = ".tar"
_RECORD = ".json"
_SET_ASIDE = ".tar.unreadable"
_UNFINISHED = ".new"
_MAX_FOLDER = 100


class BoxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a box is. ``sleep_after_s`` are seconds without a call."""

    image: str
    sleep_after_s: float


@dataclass(frozen=True, slots=True)
class Saved:
    """What is stored of a box's files; empty: nothing."""

    digest: str = ""


class BoxStorage(Protocol):
    """Keeps boxes while they sleep. Calls for one box never overlap."""

    async def records(self, owner: str) -> Mapping[str, BoxRecord | None]:
        """An owner's stored boxes by name; None where only files are stored. Raises `OSError`."""

    async def remember(self, owner: str, name: str, record: BoxRecord) -> None:
        """Store what a box is. Raises `OSError`."""

    async def save(self, owner: str, name: str, box: Box, before: Saved) -> Saved:
        """Store a box's files where they differ from ``before``. A box without any leaves nothing.

        Raises `OSError`, `BoxFileError` and `BoxLost`; what was stored is whole then.
        """

    async def restore(self, owner: str, name: str, box: Box) -> Saved:
        """Put the stored files into a fresh box. Raises `OSError` and `BoxLost`.

        Files that cannot be read are set aside and told to the operator.
        """

    async def forget(self, owner: str, name: str) -> None:
        """Remove all that is stored of a box. Raises `OSError`."""


class FolderStorage:
    """A folder for each owner, in it an archive and a record for each box.

    ``folder_name`` makes an owner's folder; no two owners may get the same one.
    """

    def __init__(self, folder: Path, folder_name: Callable[[str], str] | None = None) -> None:
        self._folder = folder
        self._folder_name = folder_name or _folder_name

    async def records(self, owner: str) -> Mapping[str, BoxRecord | None]:
        """See `BoxStorage.records`."""
        return await anyio.to_thread.run_sync(_records, self._folder / self._folder_name(owner))

    async def remember(self, owner: str, name: str, record: BoxRecord) -> None:
        """See `BoxStorage.remember`."""
        await _replace(self._path(owner, name, _RECORD), msgspec.json.encode(record))

    async def save(self, owner: str, name: str, box: Box, before: Saved) -> Saved:
        """See `BoxStorage.save`."""
        archive = await box.export_files()
        # A quarter of a gigabyte and 50,000 files are possible: nobody else waits for them.
        digest = await anyio.to_thread.run_sync(_digest, archive)
        if digest == before.digest:
            return before
        if not before.digest and await anyio.to_thread.run_sync(_is_empty, archive):
            return before
        await _replace(self._path(owner, name, _FILES), archive)
        return Saved(digest)

    async def restore(self, owner: str, name: str, box: Box) -> Saved:
        """See `BoxStorage.restore`."""
        path = self._path(owner, name, _FILES)
        try:
            archive = await path.read_bytes()
        except FileNotFoundError:
            return Saved()
        try:
            await box.import_files(archive)
        except BoxFileError as error:
            # Kept aside: the next save must not be the end of files that could not be read.
            _log.error("%s: saved files of %s were set aside: %s", path, owner, error)
            await path.rename(self._path(owner, name, _SET_ASIDE))
            return Saved()
        return Saved(await anyio.to_thread.run_sync(_digest, archive))

    async def forget(self, owner: str, name: str) -> None:
        """See `BoxStorage.forget`."""
        for suffix in (_RECORD, _FILES, _SET_ASIDE):
            await self._path(owner, name, suffix).unlink(missing_ok=True)

    def _path(self, owner: str, name: str, suffix: str) -> anyio.Path:
        return anyio.Path(self._folder / self._folder_name(owner) / f"{name}{suffix}")


def _records(folder: Path) -> dict[str, BoxRecord | None]:
    found: dict[str, BoxRecord | None] = {}
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return found
    for path in paths:
        if path.suffix == _UNFINISHED:  # of a process that was killed
            path.unlink(missing_ok=True)
        if path.suffix not in (_FILES, _RECORD) or not NAME.fullmatch(path.stem):
            continue
        found.setdefault(path.stem, None)
        if path.suffix == _RECORD:
            try:
                found[path.stem] = msgspec.json.decode(path.read_bytes(), type=BoxRecord)
            except msgspec.MsgspecError as error:
                _log.error("%s: is no record of a box and is not used: %s", path, error)
    return found


async def _replace(path: anyio.Path, data: bytes) -> None:
    await path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + _UNFINISHED)
    await temporary.write_bytes(data)
    await temporary.replace(path)


def _folder_name(owner: str) -> str:
    name = quote(owner, safe="", errors="surrogatepass")
    # Our own mark, dots, and letters that a file system may not tell apart go by a digest.
    if 0 < len(name) <= _MAX_FOLDER and name == name.lower() and not set(name) & {"~", "."}:
        return name
    digest = hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{name.lower()[: _MAX_FOLDER - 40].replace('.', '_')}~{digest}"


def _digest(archive: bytes) -> str:
    return hashlib.sha256(archive).hexdigest()


def _is_empty(archive: bytes) -> bool:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            return all(member.isdir() and member.name.strip("./") == "" for member in files)
    except tarfile.TarError:
        return False  # it is kept, and set aside when it is needed and cannot be read
