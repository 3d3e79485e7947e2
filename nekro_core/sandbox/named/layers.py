"""Merges a tar archive of all files with later archives of changes. Later entries replace earlier
entries.

The entries come from boxes and are not trusted. Their names are compared, but never used as paths,
and their bytes are copied unchanged.
"""

import io
import posixpath
import tarfile
from collections.abc import Sequence

import msgspec

from nekro_core.system.errors import NekroError

_HEAD = "/nekro"
"""The name of an extra first entry of an archive, which contains the `_Head`. Boxes do not restore
this entry, because its name begins with a slash."""
HEAD_BYTES = 8 * 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE


class InvalidArchive(NekroError):
    """The data is not a tar archive."""


class _Head(msgspec.Struct):
    mark: str
    removed: tuple[str, ...] = ()


def layer_head(mark: str, removed: Sequence[str] = ()) -> bytes:
    """Make the beginning of an archive: the mark of the full archive, and the paths that were
    removed since the previous archive."""
    text = msgspec.json.encode(_Head(mark, tuple(removed)))
    entry = tarfile.TarInfo(_HEAD)
    entry.size = len(text)
    return entry.tobuf(tarfile.USTAR_FORMAT) + text + bytes(-len(text) % _BLOCK)


def read_head(archive: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the mark and the removed paths of an archive. Both are empty if the archive does not
    begin with a head."""
    try:
        entry = tarfile.TarInfo.frombuf(archive[:_BLOCK], "utf-8", "surrogateescape")
        if entry.name != _HEAD or entry.size > HEAD_BYTES:
            return "", ()
        head = msgspec.json.decode(archive[_BLOCK : _BLOCK + entry.size], type=_Head)
    except (tarfile.TarError, msgspec.MsgspecError, ValueError):
        return "", ()
    return head.mark, head.removed


def merge(archives: Sequence[bytes]) -> bytes:
    """Make one archive with the newest version of each file that was not removed. The call blocks
    and needs as much memory as the archives. Raises `InvalidArchive`."""
    if len(archives) == 1:
        return archives[0]
    done: set[str] = set()
    kept: list[bytes | memoryview] = []
    for archive in reversed(archives):
        names = set()
        for name, raw in _entries(archive):
            names.add(name)
            if name not in done:
                kept.append(raw)
        done |= names
        done.update(map(posixpath.normpath, read_head(archive)[1]))
    return b"".join([*kept, bytes(2 * _BLOCK)])


def _entries(archive: bytes) -> list[tuple[str, memoryview]]:
    """Return the name of each entry and its raw bytes, headers included."""
    view = memoryview(archive)
    found: list[tuple[str, int]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            found = [(posixpath.normpath(entry.name), entry.offset) for entry in tar]
            end = tar.offset
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArchive(f"not a tar archive: {error}") from error
    ends = [offset for _, offset in found[1:]] + [end]
    return [(name, view[offset:stop]) for (name, offset), stop in zip(found, ends, strict=True)]
