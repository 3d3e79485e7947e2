"""Defines the store for files that several processes need: media, the files of boxes, the archives
of plugins, and messages between processes that are too large for NATS."""

import hashlib
import re
from pathlib import Path
from typing import Protocol

from anyio import to_thread

from nekro_core.cluster.errors import ObjectDamaged, ObjectTooLarge

OBJECT_BYTES = 4 * 1024**3
"""Maximum size of one object in bytes. The files of one box fit into one object, because their
quota is smaller."""
_NAME_LENGTH = 300
"""Maximum number of characters of an object's name. Our names have a
folder, an id and an ending, which need less."""
_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*\Z")


class ObjectStore(Protocol):
    """Stores whole files under names. Every process of the cluster sees the same objects.

    A name has one or several parts, separated by ``/``. A part consists of letters, digits, ``_``,
    ``-``, ``=`` and ``.``, and does not begin with a dot. All methods raise `ValueError` for a name
    that is not of this form.
    """

    async def put(self, name: str, source: Path) -> None:
        """Store the content of a file. If the name has an object already, it is replaced in one
        step.

        If this method raises an error, the earlier object is unchanged. Raises `ObjectTooLarge`,
        `OSError` (the file cannot be read, the disk is full) and `ClusterUnavailable`.
        """

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        """Write an object into a file, and return its size in bytes.

        The file is replaced in one step, so nobody can read a part of the object. No more than
        ``most_bytes`` of the object are written to the disk. Raises `ObjectTooLarge` if it has
        more, `ObjectMissing`, `OSError` and `ClusterUnavailable`.
        """

    async def delete(self, name: str) -> bool:
        """Delete an object, so that its bytes take no space any more. Returns False if there is
        none. Raises `OSError` and `ClusterUnavailable`."""

    async def names(self, prefix: str = "") -> list[str]:
        """Return the names of all objects that begin with ``prefix``, sorted. Raises `OSError` and
        `ClusterUnavailable`."""


async def fetch_exactly(
    objects: ObjectStore, name: str, target: Path, *, sha256: str, size: int
) -> None:
    """Write an object into a new file, if it has the content that was stored.

    An object with more than ``size`` bytes is not read: nobody should be able to fill the disk of
    every process with it. The caller deletes the file, also after an error.

    Args:
        objects: The object store.
        name: The object.
        target: The file.
        sha256: The digest of the expected content in hex.
        size: The size of the expected content in bytes.

    Raises:
        ObjectDamaged: The object has another content.
        ObjectMissing: There is no such object.
        OSError: The file cannot be written.
        ClusterUnavailable: The object store cannot be reached.
    """
    try:
        await objects.fetch(name, target, most_bytes=size)
    except ObjectTooLarge:
        more = f"the object {name} has another content, with more than {size} bytes"
        raise ObjectDamaged(more) from None
    found, _ = await to_thread.run_sync(digest_and_size, target)
    if found != sha256:
        raise ObjectDamaged(f"the object {name} has another content, with the digest {found}")


def digest_and_size(path: Path) -> tuple[str, int]:
    """Return the SHA-256 of a file in hex, and its size in bytes. Raises `OSError`."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell()


def too_large(name: str, most_bytes: int) -> ObjectTooLarge:
    """Return the error for an object that has more bytes than the caller of `ObjectStore.fetch`
    accepts."""
    return ObjectTooLarge(f"the object {name} has more than {most_bytes} bytes: it is not fetched")


def check_object_name(name: str) -> str:
    """Return the name unchanged. Raises `ValueError` if an object cannot have this name."""
    if len(name) > _NAME_LENGTH or not _NAME.match(name):
        raise ValueError(
            f"object name {name[:_NAME_LENGTH]!r}: expected parts of letters, digits, '_', '-', "
            f"'=' and '.', separated by '/', of at most {_NAME_LENGTH} characters together"
        )
    return name
