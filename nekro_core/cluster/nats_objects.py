"""Implements the object store on NATS (JetStream's object store)."""

import os
import uuid
from io import BufferedWriter
from pathlib import Path
from typing import Self

import anyio
import nats.errors
from anyio import to_thread
from nats.js import JetStreamContext
from nats.js.errors import (
    BadRequestError,
    NotFoundError,
    ObjectDeletedError,
    ObjectNotFoundError,
)
from nats.js.object_store import ObjectStore as Bucket

from nekro_core.cluster.errors import ClusterUnavailable, ObjectMissing, ObjectTooLarge
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.objects import OBJECT_BYTES, check_object_name
from nekro_core.cluster.subjects import OBJECT_BUCKET

_BYTES_S = 1024 * 1024
"""The lowest speed, in bytes per second, at which an object may be transferred. Its time limit is
its size divided by this speed, plus `_LEAST_S`."""
_LEAST_S = 30.0


class NatsObjects:
    """Implements `ObjectStore` on NATS. Use `NatsObjects.open`."""

    def __init__(self, bucket: Bucket, *, most_bytes: int = OBJECT_BYTES) -> None:
        self._bucket = bucket
        self._most_bytes = most_bytes

    @classmethod
    async def open(
        cls,
        connection: NatsConnection,
        *,
        replicas: int = 1,
        most_bytes: int = OBJECT_BYTES,
        make: bool = True,
    ) -> Self:
        """Open the bucket that holds the objects. If it is missing and ``make`` is true, make it on
        ``replicas`` servers. Raises `ClusterUnavailable`."""
        jetstream: JetStreamContext = connection.client.jetstream()
        try:
            try:
                bucket = await jetstream.object_store(OBJECT_BUCKET)
            except NotFoundError:
                if not make:
                    raise ClusterUnavailable(
                        "NATS has no object store yet: start a gateway first, which makes it"
                    ) from None
                bucket = await jetstream.create_object_store(OBJECT_BUCKET, replicas=replicas)
        except BadRequestError:
            bucket = await jetstream.object_store(
                OBJECT_BUCKET
            )  # another process has made it just now
        except (nats.errors.Error, OSError) as error:
            raise ClusterUnavailable(f"NATS's object store does not answer: {error}") from error
        return cls(bucket, most_bytes=most_bytes)

    async def put(self, name: str, source: Path) -> None:
        """See `ObjectStore.put`."""
        check_object_name(name)
        size = (await to_thread.run_sync(source.stat)).st_size
        if size > self._most_bytes:
            raise ObjectTooLarge(
                f"{source.name} has {size} bytes; an object has at most {self._most_bytes}"
            )
        file = await to_thread.run_sync(source.open, "rb")
        try:
            with anyio.fail_after(_LEAST_S + size / _BYTES_S):
                await self._bucket.put(name, file)
        except (nats.errors.Error, TimeoutError) as error:
            raise ClusterUnavailable(f"the object {name} was not stored: {error}") from error
        finally:
            await to_thread.run_sync(file.close)

    async def fetch(self, name: str, target: Path) -> int:
        """See `ObjectStore.fetch`."""
        check_object_name(name)
        unfinished = target.with_name(f".{uuid.uuid4().hex}.new")
        try:
            info = await self._bucket.get_info(name)
            size = info.size or 0
            file = await to_thread.run_sync(_create, unfinished)
            try:
                with anyio.fail_after(_LEAST_S + size / _BYTES_S):
                    await self._bucket.get(name, writeinto=file)
            finally:
                await to_thread.run_sync(file.close)
            await to_thread.run_sync(unfinished.replace, target)
        except (ObjectNotFoundError, ObjectDeletedError):
            raise ObjectMissing(f"there is no object {name}") from None
        except (nats.errors.Error, TimeoutError) as error:
            raise ClusterUnavailable(f"the object {name} cannot be fetched: {error}") from error
        finally:
            await to_thread.run_sync(_remove, unfinished)
        return size

    async def delete(self, name: str) -> bool:
        """See `ObjectStore.delete`."""
        check_object_name(name)
        try:
            await self._bucket.delete(name)
        except (ObjectNotFoundError, ObjectDeletedError):
            return False
        except (nats.errors.Error, OSError) as error:
            raise ClusterUnavailable(f"the object {name} was not deleted: {error}") from error
        return True

    async def names(self, prefix: str = "") -> list[str]:
        """See `ObjectStore.names`."""
        try:
            found = await self._bucket.list(ignore_deletes=True)
        except NotFoundError:
            return []
        except (nats.errors.Error, OSError) as error:
            raise ClusterUnavailable(f"NATS does not list its objects: {error}") from error
        names = (each.name for each in found)
        return sorted(name for name in names if name and name.startswith(prefix))


def _create(path: Path) -> BufferedWriter:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
