"""Carries what the console of a gateway asks another process, and the answers.

A process is called by its name. A request or an answer that is too large for a call, such as a file
of a box, goes through the object store.
"""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from loguru import logger

from nekro_core.cluster.calls import CallCarrier
from nekro_core.cluster.carried_media import OUTGOING
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.errors import CallFailed, ClusterError, RequestNotStored
from nekro_core.cluster.objects import ObjectStore
from nekro_core.cluster.process_messages import (
    ProcessAnswer,
    ProcessRequest,
    StoredMessage,
    decode_answer,
    decode_request,
    encode_message,
)

INLINE_BYTES = 512 * 1024
"""A larger request or answer goes through the object store. A call carries at most 768 KiB."""
MOST_BYTES = 64 * 1024 * 1024
"""Maximum size of a request or an answer in bytes. The largest is a file of 16 MiB of a box, which
is 22 MiB as text (Base64)."""
_DELETE_S = 5.0
"""Time limit in seconds for deleting an object that was read. `UnusedObjects` deletes an object
that was left, like an outgoing medium."""

ProcessHandler = Callable[[ProcessRequest], Awaitable[ProcessAnswer]]


@dataclass(frozen=True, slots=True)
class ProcessCalls:
    """Calls processes by their names, and answers such calls.

    Attributes:
        carriers: Carries the calls to the processes of each role.
        objects: The object store.
        scratch: The folder in which a large message lies while it is read or written.
    """

    carriers: Mapping[ClusterRole, CallCarrier]
    objects: ObjectStore
    scratch: Path

    async def ask(
        self, role: ClusterRole, node: str, request: ProcessRequest, *, within_s: float
    ) -> ProcessAnswer:
        """Call a process and return its answer. Raises `ClusterError`, as `CallCarrier.call`
        does, and `RequestNotStored`."""
        try:
            body = await self._packed(encode_message(request))
        except CallFailed:
            raise
        except ClusterError as error:
            raise RequestNotStored(f"a large request cannot be stored: {error}") from error
        answer = decode_answer(await self.carriers[role].call(node, body, within_s=within_s))
        if isinstance(answer, StoredMessage):
            answer = decode_answer(await self._fetched(answer))
        if isinstance(answer, StoredMessage):
            raise CallFailed(f"{node} answers with an object in an object")
        return answer

    @asynccontextmanager
    async def serve(
        self, role: ClusterRole, node: str, handler: ProcessHandler
    ) -> AsyncIterator[None]:
        """Answer the calls to this process until the block ends."""

        async def handle(data: bytes) -> bytes:
            request = decode_request(data)
            if isinstance(request, StoredMessage):
                request = decode_request(await self._fetched(request))
            if isinstance(request, StoredMessage):
                raise CallFailed("a request is an object in an object")
            return await self._packed(encode_message(await handler(request)))

        async with self.carriers[role].serve(node, handle):
            yield

    async def _packed(self, body: bytes) -> bytes:
        """Return what a call carries for a message: the message itself, or a `StoredMessage` if it
        is larger than `INLINE_BYTES`. Raises `ClusterError`."""
        if len(body) <= INLINE_BYTES:
            return body
        if len(body) > MOST_BYTES:
            raise CallFailed(f"a message of {len(body)} bytes; at most {MOST_BYTES} are sent")
        name = f"{OUTGOING}{uuid.uuid4().hex}/0"
        file = await self._new_file()
        try:
            await anyio.Path(file).write_bytes(body)
            await self.objects.put(name, file)
        except OSError as error:
            raise CallFailed(f"a large message cannot be sent: {error}") from error
        finally:
            await _remove(file)
        return encode_message(StoredMessage(name))

    async def _fetched(self, stored: StoredMessage) -> bytes:
        """Read the message that was stored as an object, and delete the object, also if the message
        cannot be read. Raises `ClusterError`."""
        if not stored.object_name.startswith(OUTGOING):
            # Otherwise a caller could have any medium or box deleted.
            raise CallFailed(f"{stored.object_name[:80]!r} is no object of a message")
        file = await self._new_file()
        try:
            await self.objects.fetch(stored.object_name, file, most_bytes=MOST_BYTES)
            return await anyio.Path(file).read_bytes()
        except (OSError, ValueError) as error:
            raise CallFailed(f"a large message cannot be read: {error}") from error
        finally:
            await _remove(file)
            with anyio.move_on_after(_DELETE_S, shield=True):
                try:
                    await self.objects.delete(stored.object_name)
                except (ClusterError, OSError, ValueError) as error:
                    logger.warning("the object {} is not deleted: {}", stored.object_name, error)

    async def _new_file(self) -> Path:
        await anyio.Path(self.scratch).mkdir(parents=True, exist_ok=True, mode=0o700)
        return self.scratch / uuid.uuid4().hex


async def _remove(file: Path) -> None:
    with anyio.CancelScope(shield=True):
        try:
            await anyio.Path(file).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("{} is not removed: {}", file, error)
