"""Implements leases on NATS.

The name of each lease is a subject of a stream. The stream keeps one message per subject for some
seconds: the name of the process that holds the lease. A process writes only if the subject is
empty, or has its own last message. (A key-value bucket of NATS is such a stream too.)
"""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import nats.errors
from loguru import logger

from nekro_core.cluster.errors import ClusterError, ClusterUnavailable, LeaseLost, LeaseTaken
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_partition import nanoseconds
from nekro_core.cluster.subjects import LEASE_STREAM, LEASE_SUBJECT, subject_of
from nekro_core.system.background_tasks import background_tasks

_LASTS_S = 5.0
"""A name is free again this many seconds after its process was killed."""
_WRONG_SEQUENCE = 10071
"""The error code with which JetStream refuses a write because the last message of the subject is
not the expected one: another process wrote meanwhile."""
_RELEASE_S = 2.0


class NatsLeases:
    """Implements `Leases` on NATS."""

    def __init__(self, connection: NatsConnection, *, lasts_s: float = _LASTS_S) -> None:
        self._connection = connection
        self._lasts_s = lasts_s

    async def prepare(self) -> None:
        """Make the stream if it is missing. Raises `ClusterError`."""
        config: dict[str, Any] = {
            "name": LEASE_STREAM,
            "subjects": [f"{LEASE_SUBJECT}.*"],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "max_age": nanoseconds(self._lasts_s),
            "duplicate_window": nanoseconds(self._lasts_s),
            "num_replicas": 1,
        }
        try:
            await self._connection.api(f"STREAM.CREATE.{LEASE_STREAM}", config)
        except JetStreamRefused as refused:
            # A process of another version made the stream, with another lifetime of leases.
            logger.debug("the stream of leases stays as it is: {}", refused)

    @asynccontextmanager
    async def hold(self, name: str, holder: str) -> AsyncIterator[None]:
        """See `Leases.hold`."""
        lease = _NatsLease(self._connection, name, holder)
        await lease.take()
        lost = False

        async def renew(scope: anyio.CancelScope) -> None:
            nonlocal lost
            while True:
                await anyio.sleep(self._lasts_s / 3)
                try:
                    await lease.renew()
                except LeaseTaken as taken:
                    logger.error("{}", taken)
                    lost = True
                    scope.cancel()
                except ClusterError as error:
                    # While NATS is away, nobody else can take the lease either. If another process
                    # has taken it, the next renewal that reaches NATS raises `LeaseTaken`.
                    logger.warning("{} cannot be renewed now: {}", name, error)

        try:
            async with background_tasks() as tasks:
                tasks.start_soon(renew, tasks.cancel_scope)
                yield
        finally:
            if not lost:
                with anyio.move_on_after(_RELEASE_S, shield=True):
                    await lease.release()
        if lost:
            raise LeaseLost(f"{name} is used by another process now")


class _NatsLease:
    """One name that this process uses."""

    def __init__(self, connection: NatsConnection, name: str, holder: str) -> None:
        self._connection = connection
        self._name = name
        self._holder = holder
        self._subject = f"{LEASE_SUBJECT}.{subject_of(name)}"
        self._sequence = 0

    async def take(self) -> None:
        """Write the holder's name if nobody holds the lease. Raises `LeaseTaken` and
        `ClusterUnavailable`."""
        sequence = await self._write(0)
        if sequence is None:
            raise LeaseTaken(f"{self._name} is used by {await self._other()}")
        self._sequence = sequence

    async def renew(self) -> None:
        """Write the holder again. If the lease ran out meanwhile and nobody took it, take it again.
        Raises `LeaseTaken` and `ClusterUnavailable`."""
        sequence = await self._write(self._sequence)
        if sequence is None:
            await self.take()
        else:
            self._sequence = sequence

    async def release(self) -> None:
        """Delete our own message."""
        try:
            await self._connection.api(
                f"STREAM.PURGE.{LEASE_STREAM}",
                {"filter": self._subject, "seq": self._sequence + 1},
            )
        except ClusterError as error:
            logger.debug("{} runs out by itself: {}", self._name, error)

    async def _write(self, last: int) -> int | None:
        """Write the holder if the subject's last message has this number. Returns the new number;
        None if another message is there."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
        try:
            message = await self._connection.request(
                self._subject, self._holder.encode(), headers=headers
            )
        except nats.errors.NoRespondersError:
            raise ClusterUnavailable(f"{self._subject}: JetStream does not answer") from None
        answer = json.loads(message.data)
        if error := answer.get("error"):
            if error.get("err_code") == _WRONG_SEQUENCE:
                return None
            raise JetStreamRefused(self._subject, error)
        return int(answer["seq"])

    async def _other(self) -> str:
        try:
            found = await self._connection.api(
                f"STREAM.MSG.GET.{LEASE_STREAM}", {"last_by_subj": self._subject}
            )
        except ClusterError:
            return "another process"
        return base64.b64decode(found["message"].get("data", "")).decode(errors="replace")
