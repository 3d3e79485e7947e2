"""Implements the object store on S3.

`put` sends a file whole, in one request. An upload in parts would leave the parts in the bucket if
the process is killed, and no list of objects shows such parts. A request may have 5 GiB, which is
more than `OBJECT_BYTES`.
"""

import hashlib
import os
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread
from loguru import logger

from nekro_core.cluster.errors import (
    ClusterMisconfigured,
    ClusterUnavailable,
    ObjectDamaged,
    ObjectMissing,
    ObjectTooLarge,
)
from nekro_core.cluster.objects import OBJECT_BYTES, check_object_name
from nekro_core.cluster.s3_address import S3Address
from nekro_core.cluster.s3_answers import ListedObject, S3Refused, read_list, read_versioning
from nekro_core.cluster.s3_requests import SILENT_S, ObjectUpload, S3Requests, transfer_s
from nekro_core.cluster.settings import S3Settings

_MOST_PAGES = 10_000
"""Maximum number of pages of 1000 objects in a list. A server that always names another page must
not keep us busy for ever."""
_DIGEST = "x-amz-meta-sha256"
"""The header with the digest of an object's content. The server keeps it with the object."""
_VERSION = "x-amz-version-id"
_MARKER = "x-amz-delete-marker"
"""Headers of answers from a bucket that keeps the earlier versions of its objects."""
_TRIAL = "outgoing/check-"
"""The beginning of the name of the object that `S3Objects.try_out` stores and deletes. If the
process is killed in between, `UnusedObjects` deletes the object."""


class S3Objects:
    """Implements `ObjectStore` on S3. Use `S3Objects.open`.

    If the bucket keeps the earlier versions of its objects, `delete` deletes all versions of an
    object, and `put` deletes the versions before the new one. Otherwise the server would keep data
    that a person had asked to erase.
    """

    def __init__(
        self, address: S3Address, requests: S3Requests, *, most_bytes: int = OBJECT_BYTES
    ) -> None:
        self._prefix = address.prefix
        self._requests = requests
        self._most_bytes = most_bytes
        self._versions = False

    @property
    def keeps_versions(self) -> bool:
        """Whether the bucket keeps earlier versions; False if the server does not say so."""
        return self._versions

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        address: S3Address,
        settings: S3Settings,
        *,
        most_bytes: int = OBJECT_BYTES,
        silent_s: float = SILENT_S,
    ) -> AsyncIterator[Self]:
        """Connect to the bucket until the block ends.

        First, a small object is stored, read and deleted, so that a missing permission is noticed
        now and not when a person sends a picture.

        Args:
            address: The bucket.
            settings: The credentials.
            most_bytes: Maximum size of one object in bytes.
            silent_s: A request fails after this many seconds without a byte.

        Raises:
            ClusterMisconfigured: The server refuses what is needed. The text says what to change.
            ClusterUnavailable: The server does not answer, or refuses for a reason that may pass.
        """
        async with S3Requests.open(address, settings, silent_s=silent_s) as requests:
            objects = cls(address, requests, most_bytes=most_bytes)
            try:
                with anyio.fail_after(transfer_s(0)):
                    await objects.try_out()
            except S3Refused as error:
                if error.lasting:
                    raise ClusterMisconfigured(f"{address} cannot be used: {error}") from error
                raise
            except TimeoutError:
                raise ClusterUnavailable(
                    f"{address} did not answer within {transfer_s(0):g} s"
                ) from None
            yield objects

    async def try_out(self) -> None:
        """Store, read, list and delete a small object. Raises `ClusterMisconfigured` and
        `ClusterUnavailable`."""
        # The list comes first: if the key or the clock is wrong, the refusal says so.
        await self._requests.call("GET", query=_list_query(f"{self._prefix}{_TRIAL}", most=1))
        await self._look_for_versions()
        name, content = f"{_TRIAL}{uuid.uuid4().hex}", uuid.uuid4().bytes
        folder = await to_thread.run_sync(tempfile.mkdtemp, None, "nekro-s3-")
        file = Path(folder) / "object"
        try:
            await to_thread.run_sync(file.write_bytes, content)
            await self.put(name, file)
            await self.fetch(name, file)
            listed = await self.names(name)
            deleted = await self.delete(name)
            same = await to_thread.run_sync(file.read_bytes) == content
            left = await self.names(name)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_remove, file)
                await to_thread.run_sync(Path(folder).rmdir)
        if not (same and deleted and listed == [name] and left == []):
            raise ClusterMisconfigured(
                "the S3 server does not give back, list or delete an object that was stored just "
                "now: expected a server that shows changes at once, as S3 does since 2020"
            )

    async def put(self, name: str, source: Path) -> None:
        """See `ObjectStore.put`."""
        key = self._key(name)
        file = await to_thread.run_sync(source.open, "rb")
        try:
            size = (await to_thread.run_sync(os.fstat, file.fileno())).st_size
            if size > self._most_bytes:
                raise ObjectTooLarge(
                    f"{source.name} has {size} bytes; an object has at most {self._most_bytes}"
                )
            upload = ObjectUpload(file, size, await to_thread.run_sync(_digest, file))
            with anyio.fail_after(transfer_s(size)):
                stored = await self._requests.call(
                    "PUT", key, headers={_DIGEST: upload.sha256}, upload=upload
                )
        except TimeoutError as error:
            raise _too_slow(f"the object {name} was not stored") from error
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(file.close)
        self._versions = self._versions or _VERSION in stored.headers
        if self._versions:
            await self._delete_earlier(name, stored.headers.get(_VERSION, "null"))

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        """See `ObjectStore.fetch`. An object whose content has changed raises `ObjectDamaged`."""
        key = self._key(name)
        unfinished = target.with_name(f".{uuid.uuid4().hex}.new")
        try:
            file = await to_thread.run_sync(_create, unfinished)
            try:
                most = min(most_bytes, self._most_bytes)
                got = await self._requests.download(key, file, most)
            finally:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(file.close)
            stored = got.headers.get(_DIGEST, got.sha256)
            if got.sha256 != stored:
                raise ObjectDamaged(
                    f"the object {name} has the digest {got.sha256}, and was stored with "
                    f"{stored[:64]}: its content has changed in the object store"
                )
            await to_thread.run_sync(unfinished.replace, target)
        except S3Refused as error:
            if error.code != "NoSuchKey":
                raise
            raise ObjectMissing(f"there is no object {name}") from None
        except TimeoutError as error:
            raise _too_slow(f"the object {name} cannot be fetched") from error
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_remove, unfinished)
        return got.size

    async def delete(self, name: str) -> bool:
        """See `ObjectStore.delete`. All versions of the object are deleted."""
        key = self._key(name)
        try:
            with anyio.fail_after(transfer_s(0)):
                if self._versions:
                    return await self._delete_versions(key)
                if not await self._is_there(key):
                    return False
                answer = await self._requests.call("DELETE", key)
                if _VERSION in answer.headers or _MARKER in answer.headers:
                    # `_look_for_versions` was refused, or versions are kept only since then.
                    self._versions = True
                    await self._delete_versions(key)
                return True
        except TimeoutError as error:
            raise _too_slow(f"the object {name} was not deleted") from error

    async def names(self, prefix: str = "") -> list[str]:
        """See `ObjectStore.names`. Objects whose names are not of our form are left out."""
        found: list[str] = []
        page = ""
        for _ in range(_MOST_PAGES):
            try:
                with anyio.fail_after(transfer_s(0)):
                    query = _list_query(f"{self._prefix}{prefix}", page=page)
                    listed = read_list((await self._requests.call("GET", query=query)).body)
            except TimeoutError as error:
                raise _too_slow("the objects cannot be listed") from error
            found += (name for each in listed.objects if (name := self._name(each.key)))
            if not listed.truncated:
                return sorted(found)
            if listed.next_page in ("", page):
                break
            page = listed.next_page
        raise ClusterUnavailable("the S3 server's list of objects does not end")

    async def _look_for_versions(self) -> None:
        try:
            answer = await self._requests.call("GET", query={"versioning": ""})
            self._versions = read_versioning(answer.body)
        except S3Refused as error:
            if error.passing:
                raise
            # Some servers have no versions. Where only the permission is missing, the answers to
            # later requests show that there are versions.
            logger.debug("the bucket does not say whether it keeps versions: {}", error)

    async def _is_there(self, key: str) -> bool:
        # Deleting an object that is missing succeeds in S3, so ask before. A list with one entry is
        # enough: the key itself comes before all longer keys that begin with it.
        answer = await self._requests.call("GET", query=_list_query(key, most=1))
        return any(each.key == key for each in read_list(answer.body).objects)

    async def _versions_of(self, key: str) -> list[ListedObject]:
        """Return the newest versions of an object, at most 1000, beginning with the newest."""
        query = {"versions": "", "prefix": key, "max-keys": "1000", "encoding-type": "url"}
        listed = read_list((await self._requests.call("GET", query=query)).body)
        return [each for each in listed.objects if each.key == key]

    async def _delete_versions(self, key: str) -> bool:
        """Delete all versions of an object. Returns whether one of them had content."""
        had_content = False
        while versions := await self._versions_of(key):
            for each in versions:
                await self._requests.call("DELETE", key, {"versionId": each.version})
                had_content = had_content or not each.marker
        return had_content

    async def _delete_earlier(self, name: str, version: str) -> None:
        """Delete the versions of an object that are older than ``version``. Raises nothing if the
        server cannot be reached."""
        key = self._key(name)
        try:
            with anyio.fail_after(transfer_s(0)):
                versions = await self._versions_of(key)
                known = [each.version for each in versions]
                # Another process may have stored a newer version at this moment, which stays.
                begin = known.index(version) + 1 if version in known else len(known)
                for each in versions[begin:]:
                    await self._requests.call("DELETE", key, {"versionId": each.version})
        except (ClusterUnavailable, TimeoutError) as error:
            # The object is stored, so `put` has not failed. `delete` deletes these versions later.
            logger.warning("earlier versions of the object {} stay for now: {}", name, error)

    def _key(self, name: str) -> str:
        return f"{self._prefix}{check_object_name(name)}"

    def _name(self, key: str) -> str:
        """Return the name of the object with this key; empty if it is not one of ours."""
        name = key.removeprefix(self._prefix)
        try:
            return check_object_name(name) if key.startswith(self._prefix) else ""
        except ValueError:
            return ""


def _list_query(prefix: str, *, page: str = "", most: int = 1000) -> dict[str, str]:
    query = {
        "list-type": "2",
        "prefix": prefix,
        "max-keys": str(most),
        # Otherwise one odd key of somebody else would make the whole list invalid XML.
        "encoding-type": "url",
    }
    return query | ({"continuation-token": page} if page else {})


def _too_slow(what: str) -> ClusterUnavailable:
    return ClusterUnavailable(f"{what}: the S3 server is too slow, or does not answer")


def _digest(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _create(path: Path) -> BufferedWriter:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
