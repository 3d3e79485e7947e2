"""Implements the object store on NATS (JetStream's object store)."""

import base64
import hashlib
import json
import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Self

import anyio
import nats.errors
from anyio import to_thread
from loguru import logger
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import Header, ObjectInfo, ObjectMetaOptions
from nats.js.errors import (
    BadRequestError,
    NotFoundError,
    ObjectDeletedError,
    ObjectNotFoundError,
)
from nats.js.object_store import ObjectStore as Bucket

from nekro_core.cluster.errors import (
    ClusterError,
    ClusterUnavailable,
    ObjectMissing,
    ObjectTooLarge,
)
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.objects import OBJECT_BYTES, check_object_name, too_large
from nekro_core.cluster.subjects import OBJECT_BUCKET, OBJECT_STREAM

_BYTES_S = 1024 * 1024
"""The lowest speed, in bytes per second, at which an object may be transferred. Its time limit is
its size divided by this speed, plus `_LEAST_S`."""
_LEAST_S = 30.0
"""Seconds that are added to the time limit of each object, because the server may be busy before
the first byte and after the last one."""
_CHUNK_BYTES = 128 * 1024
"""Size of the messages into which the content of an object is cut. It is the size that NATS's
client libraries use."""
_SEQUENCE, _STATUS, _REASON = "Nats-Sequence", "Status", "Description"
"""Headers of NATS: the number of a message in its stream; the kind of an answer without content."""
_NOT_FOUND = "404"
_META_SUBJECTS = f"$O.{OBJECT_BUCKET}.M.>"
"""The subjects of the messages that describe the objects."""
_MOST_LEFT = 1_000
"""Maximum number of contents that are to be deleted later. While NATS is away, each try to store an
object adds one."""


class NatsObjects:
    """Implements `ObjectStore` on NATS. Use `NatsObjects.open`."""

    def __init__(
        self,
        connection: NatsConnection,
        bucket: Bucket,
        *,
        most_bytes: int = OBJECT_BYTES,
        replicas: int = 1,
    ) -> None:
        self._connection = connection
        self._bucket = bucket
        self._most_bytes = most_bytes
        self._replicas = replicas
        self._left: dict[str, set[str]] = {}
        """By the names of objects: the ids of contents that may be stored although they belong to
        no object any more, because NATS did not answer when they should have been deleted."""

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
            bucket = await _opened_bucket(jetstream, replicas if make else None)
        except (nats.errors.Error, OSError) as error:
            raise ClusterUnavailable(f"NATS's object store does not answer: {error}") from error
        return cls(connection, bucket, most_bytes=most_bytes, replicas=replicas)

    async def make_missing(self) -> None:
        """Make the bucket if it is missing. Raises `ClusterUnavailable`."""
        try:
            await _opened_bucket(self._connection.client.jetstream(), self._replicas)
        except (nats.errors.Error, OSError) as error:
            raise ClusterUnavailable(f"NATS's object store does not answer: {error}") from error

    @classmethod
    async def find(cls, connection: NatsConnection, *, empty: bool = False) -> Self | None:
        """Open the bucket if it exists and has objects; with ``empty``, also if it has none.
        Otherwise return None. Raises `ClusterUnavailable`."""
        try:
            stream = await connection.api(f"STREAM.INFO.{OBJECT_STREAM}")
        except JetStreamRefused as error:
            if error.missing:
                return None
            raise ClusterUnavailable(f"NATS does not list its objects: {error}") from error
        if not empty and not stream["state"]["messages"]:
            return None
        return await cls.open(connection, make=False)

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
                await self._write(name, file)
            await self._erase_left()
        except (nats.errors.Error, TimeoutError) as error:
            raise ClusterUnavailable(f"the object {name} was not stored: {error}") from error
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(file.close)

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        """See `ObjectStore.fetch`."""
        check_object_name(name)
        unfinished = target.with_name(f".{uuid.uuid4().hex}.new")
        try:
            info = await self._bucket.get_info(name)
            size = info.size or 0
            if size > most_bytes:
                raise too_large(name, most_bytes)
            file = await to_thread.run_sync(_create, unfinished)
            try:
                with anyio.fail_after(_LEAST_S + size / _BYTES_S):
                    await self._read(name, info, file)
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
        """See `ObjectStore.delete`. The server overwrites the content in its files."""
        check_object_name(name)
        try:
            info = await self._bucket.get_info(name)
            with anyio.fail_after(_LEAST_S + (info.size or 0) / _BYTES_S):
                await self._erase(str(info.nuid))
            # Not with the client library, which leaves a message for each deleted object.
            await self._connection.api(
                f"STREAM.PURGE.{OBJECT_STREAM}", {"filter": _meta_subject(name)}
            )
            await self._erase_left()
        except (ObjectNotFoundError, ObjectDeletedError):
            # An object that was not stored to its end has no name, and may have left content.
            await self._erase_left()
            return False
        except (nats.errors.Error, JetStreamRefused, OSError, TimeoutError) as error:
            raise ClusterUnavailable(f"the object {name} was not deleted: {error}") from error
        return True

    async def _write(self, name: str, file: BufferedReader) -> None:
        """Store an object in the form of JetStream's object store. The client library's `put`
        would purge the content of an earlier object and not overwrite it."""
        earlier, nuid = await self._content_of(name), uuid.uuid4().hex
        try:
            await self._write_content(name, nuid, file)
        except (nats.errors.Error, TimeoutError):
            # NATS may have stored the name, and its answer was lost.
            if not await self._has_content(name, nuid):
                self._leave(name, nuid, earlier)
                raise
        except BaseException:
            self._leave(name, nuid, earlier)
            with anyio.move_on_after(_LEAST_S, shield=True):
                await self._erase_left()
            raise
        self._leave(name, earlier)

    async def _write_content(self, name: str, nuid: str, file: BufferedReader) -> None:
        """Store the content of an object, and then its name."""
        jetstream = self._connection.client.jetstream()
        digest, size, chunks = hashlib.sha256(), 0, 0
        while chunk := await to_thread.run_sync(file.read, _CHUNK_BYTES):
            await jetstream.publish(f"$O.{OBJECT_BUCKET}.C.{nuid}", chunk)
            digest.update(chunk)
            size, chunks = size + len(chunk), chunks + 1
        info = ObjectInfo(
            name=name,
            bucket=OBJECT_BUCKET,
            nuid=nuid,
            size=size,
            chunks=chunks,
            mtime=datetime.now(UTC).isoformat(),
            digest=_digest_text(digest.digest()),
            options=ObjectMetaOptions(max_chunk_size=_CHUNK_BYTES),
        )
        await jetstream.publish(
            _meta_subject(name),
            json.dumps(info.as_dict()).encode(),
            headers={Header.ROLLUP: "sub"},
        )

    async def _content_of(self, name: str) -> str | None:
        """Return the id of the content of an object; None if there is no such object. Raises
        `nats.errors.Error`."""
        try:
            return str((await self._bucket.get_info(name)).nuid)
        except (ObjectNotFoundError, ObjectDeletedError):
            return None

    async def _has_content(self, name: str, nuid: str) -> bool:
        """Return whether an object certainly has this content."""
        try:
            return await self._content_of(name) == nuid
        except (nats.errors.Error, TimeoutError):
            return False

    def _leave(self, name: str, *nuids: str | None) -> None:
        """Note contents that are to be deleted, unless the object has them. Raises nothing."""
        for nuid in nuids:
            if nuid is None:
                continue
            if sum(map(len, self._left.values())) >= _MOST_LEFT:
                logger.error("the content {} of {} stays in NATS", nuid, name)
            else:
                self._left.setdefault(name, set()).add(nuid)

    async def _erase_left(self) -> None:
        """Delete the noted contents. If this fails, it is tried again when the next object has been
        stored or deleted. Raises nothing: the object that was stored or deleted before this call is
        not concerned."""
        for name, nuids in [*self._left.items()]:
            try:
                with anyio.fail_after(_LEAST_S):
                    nuids.discard(await self._content_of(name) or "")
                    for nuid in [*nuids]:
                        await self._erase(nuid)
                        nuids.discard(nuid)
            except (nats.errors.Error, ClusterError, OSError) as error:
                logger.warning("an earlier content of {} is deleted later: {}", name, error)
                return
            if not nuids:
                self._left.pop(name, None)

    async def _erase(self, nuid: str) -> None:
        """Delete the messages with the content of an object one by one. The server overwrites a
        message that is deleted in this way. Purging, which is what the client library does, leaves
        the bytes in the server's files."""
        sequence = 0
        # There may be fewer messages than the object had, if this was interrupted before.
        while chunk := await self._chunk(nuid, sequence + 1):
            sequence = int((chunk.headers or {})[_SEQUENCE])
            await self._connection.api(f"STREAM.MSG.DELETE.{OBJECT_STREAM}", {"seq": sequence})

    async def _read(self, name: str, info: ObjectInfo, file: BufferedWriter) -> None:
        """Write the content of an object into a file. Raises `ObjectTooLarge` if it has more bytes
        than ``info`` says, and `ClusterUnavailable`, also if the content is not the one that was
        stored."""
        digest, left, sequence = hashlib.sha256(), info.size or 0, 0
        while left:
            chunk = await self._chunk(str(info.nuid), sequence + 1)
            if chunk is None:
                raise ClusterUnavailable(f"a part of the object {name} is missing")
            if (left := left - len(chunk.data)) < 0:
                raise too_large(name, info.size or 0)
            sequence = int((chunk.headers or {})[_SEQUENCE])
            await to_thread.run_sync(_write, file, digest.update, chunk.data)
        if info.digest != _digest_text(digest.digest()):
            raise ClusterUnavailable(f"the object {name} is damaged")

    async def _chunk(self, nuid: str, least: int) -> Msg | None:
        """Return the first message with content of an object whose number in the stream is at least
        ``least``; None if there is none.

        The messages are asked for one by one. A consumer would do too, but whoever may make a
        consumer can have NATS send messages to any subject, also to JetStream's API. So workers may
        make none."""
        asked = {"seq": least, "next_by_subj": f"$O.{OBJECT_BUCKET}.C.{nuid}"}
        subject = f"$JS.API.DIRECT.GET.{OBJECT_STREAM}"
        try:
            answer = await self._connection.request(subject, json.dumps(asked).encode())
        except nats.errors.NoRespondersError:
            raise ClusterUnavailable(f"{subject}: JetStream does not answer now") from None
        status = (answer.headers or {}).get(_STATUS)
        if status == _NOT_FOUND:
            return None
        if status is not None:
            raise ClusterUnavailable(f"{subject}: {status} {(answer.headers or {}).get(_REASON)}")
        return answer

    async def names(self, prefix: str = "") -> list[str]:
        """See `ObjectStore.names`."""
        subjects, offset, total = set[str](), 0, 1
        while offset < total:
            asked = {"subjects_filter": _META_SUBJECTS, "offset": offset}
            try:
                answer = await self._connection.api(f"STREAM.INFO.{OBJECT_STREAM}", asked)
            except JetStreamRefused as error:
                raise ClusterUnavailable(f"NATS does not list its objects: {error}") from error
            found = answer["state"].get("subjects") or {}
            subjects |= found.keys()
            total, offset = int(answer.get("total", 0)), offset + len(found)
            if not found:
                break
        names = (_name_of(subject) for subject in subjects)
        return sorted(name for name in names if name and name.startswith(prefix))


async def _opened_bucket(jetstream: JetStreamContext, replicas: int | None) -> Bucket:
    """Return the bucket. If it is missing, make it on ``replicas`` servers, or raise
    `ClusterUnavailable` if ``replicas`` is None."""
    try:
        return await jetstream.object_store(OBJECT_BUCKET)
    except NotFoundError:
        if replicas is None:
            raise ClusterUnavailable(
                "NATS has no object store yet: start a gateway first, which makes it"
            ) from None
    try:
        return await jetstream.create_object_store(OBJECT_BUCKET, replicas=replicas)
    except BadRequestError:
        # Another process has made it just now.
        return await jetstream.object_store(OBJECT_BUCKET)


def _meta_subject(name: str) -> str:
    """Return the subject of the message that describes an object."""
    return f"$O.{OBJECT_BUCKET}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _name_of(subject: str) -> str:
    """Return the name of the object that a message describes; empty if the subject is not one of
    ours."""
    try:
        return base64.urlsafe_b64decode(subject.rpartition(".")[2]).decode()
    except ValueError:
        return ""


def _digest_text(digest: bytes) -> str:
    """Return a digest in the form in which JetStream's object store has it."""
    return f"SHA-256={base64.urlsafe_b64encode(digest).decode()}"


def _write(file: BufferedWriter, digest: Callable[[bytes], None], piece: bytes) -> None:
    file.write(piece)
    digest(piece)


def _create(path: Path) -> BufferedWriter:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
