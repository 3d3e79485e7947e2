"""Implements the partitions' log on NATS JetStream.

One stream holds the items of all partitions. It has one subject and one durable consumer for each
partition. JetStream stores the items, gives the items of each partition out in order, and decides
which worker owns a partition (`nats_partition.py`).
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

import anyio
import nats.errors
from loguru import logger

from nekro_core.cluster.errors import (
    ClusterError,
    ClusterUnavailable,
    LogFull,
)
from nekro_core.cluster.nats_connection import JetStreamRefused, NatsConnection
from nekro_core.cluster.nats_partition import (
    CLAIM,
    NatsPartition,
    OwnershipTimes,
    consumer_of,
    pinned_client,
)
from nekro_core.cluster.nats_presence import WorkerPresence
from nekro_core.cluster.nats_stream import NO_GATEWAY, check_stream, consumer_config
from nekro_core.cluster.partition_log import (
    DEFAULT_PARTITIONS,
    EpochBook,
    PartitionWork,
    check_item,
    check_partitions,
    check_worker,
)
from nekro_core.cluster.share import PartitionView, WorkerShare, claims
from nekro_core.cluster.subjects import PARTITION_STREAM, PARTITION_SUBJECT
from nekro_core.store import OwnershipLost

_FULL = "maximum"
"""A word in JetStream's error text (``maximum messages exceeded``) when it refuses an item because
the stream is full."""


class NatsPartitionLog:
    """Implements `PartitionLog`. Use `NatsPartitionLog.open`."""

    def __init__(
        self,
        connection: NatsConnection,
        book: EpochBook,
        partitions: int,
        times: OwnershipTimes,
    ) -> None:
        self._connection = connection
        self._book = book
        self._partitions = partitions
        self._times = times

    @classmethod
    async def open(
        cls,
        connection: NatsConnection,
        book: EpochBook,
        *,
        partitions: int = DEFAULT_PARTITIONS,
        times: OwnershipTimes | None = None,
        replicas: int = 1,
        make: bool = True,
    ) -> Self:
        """Open the log. If the stream or a consumer is missing, make it.

        Args:
            connection: The connection to NATS.
            book: Counts the changes of ownership.
            partitions: The number of partitions. It is fixed when the stream is made.
            times: The times after which an owner counts as lost; the defaults of `OwnershipTimes`
                if None.
            replicas: The number of servers that store the stream. It counts only when the stream is
                made.
            make: Whether to make a stream or consumer that is missing. Workers pass False: a thief
                of a worker's password must not be able to change the stream, so this password does
                not allow making it.

        Raises:
            ClusterMisconfigured: The stream has another number of partitions, or another program
                made it.
            ClusterUnavailable: JetStream does not answer, or no gateway has made the stream.
        """
        check_partitions(partitions)
        times = times or OwnershipTimes()
        await check_stream(connection, partitions, replicas if make else 0)
        log = cls(connection, book, partitions, times)
        there = {view.partition for view in await log.look()}
        missing = sorted({*range(partitions)} - there)
        if missing and not make:
            raise ClusterUnavailable(NO_GATEWAY)
        for partition in missing:
            await connection.api(
                f"CONSUMER.CREATE.{PARTITION_STREAM}.{consumer_of(partition)}.{PARTITION_SUBJECT}.{partition}",
                {"stream_name": PARTITION_STREAM, "config": consumer_config(partition, times)},
            )
        return log

    @property
    def partitions(self) -> int:
        """See `PartitionLog.partitions`."""
        return self._partitions

    async def publish(self, partition: int, item: bytes, *, item_id: str) -> None:
        """See `PartitionLog.publish`."""
        check_item(partition, self._partitions, item, item_id)
        await self._append(partition, item, {"Nats-Msg-Id": f"{partition}.{item_id}"})

    async def own(self, worker: str, work: PartitionWork) -> None:
        """See `PartitionLog.own`."""
        check_worker(worker)
        presence = WorkerPresence(self._connection, worker, self._times.worker_s)
        await presence.enter()
        try:
            async with anyio.create_task_group() as tasks:
                owner = _Owner(self, worker, work)
                while True:
                    try:
                        for partition in await owner.look(
                            await self.look(), await presence.count()
                        ):
                            owner.seeking.add(partition)
                            tasks.start_soon(owner.take, partition)
                    except ClusterError as error:
                        logger.warning("{} cannot look at the partitions: {}", worker, error)
                    await anyio.sleep(self._times.look_s)
        finally:
            await presence.leave()

    async def look(self) -> list[PartitionView]:
        """Return the state of every partition. Raises `ClusterError`."""
        views: list[PartitionView] = []
        names = {consumer_of(partition): partition for partition in range(self._partitions)}
        offset, total = 0, 1
        while offset < total:
            answer = await self._connection.api(
                f"CONSUMER.LIST.{PARTITION_STREAM}", {"offset": offset}
            )
            found = answer.get("consumers") or []
            views += [_view(names[info["name"]], info) for info in found if info["name"] in names]
            total = int(answer.get("total", 0))
            offset += len(found)
            if not found:
                break
        return views

    async def claim(self, view: PartitionView) -> None:
        """Publish an item without content. The worker that gets this item becomes the owner of the
        partition. If several workers publish it, it is stored once, because its id is the same."""
        claim_id = f"claim.{view.partition}.{view.newest}"
        await self._append(view.partition, b"", {"Nats-Msg-Id": claim_id, CLAIM: "1"})

    def partition(self, number: int) -> AbstractAsyncContextManager[NatsPartition]:
        """Subscribe to a partition's consumer, so that this worker can become the owner."""
        return NatsPartition.open(self._connection, number, self._times)

    @property
    def book(self) -> EpochBook:
        """Counts the changes of ownership."""
        return self._book

    async def _append(self, partition: int, item: bytes, headers: Mapping[str, str]) -> None:
        subject = f"{PARTITION_SUBJECT}.{partition}"
        try:
            message = await self._connection.request(subject, item, headers=headers)
        except nats.errors.NoRespondersError:
            raise ClusterUnavailable(f"{subject}: JetStream does not answer now") from None
        error = json.loads(message.data).get("error")
        if error is None:
            return
        refused = JetStreamRefused(subject, error)
        if _FULL in str(refused):
            raise LogFull(f"the partitions' log is full: {refused}") from refused
        raise ClusterUnavailable(str(refused)) from refused


class _Owner:
    """Takes and gives up the partitions of one worker."""

    def __init__(self, log: NatsPartitionLog, worker: str, work: PartitionWork) -> None:
        self._log = log
        self._worker = worker
        self._work = work
        self._share = WorkerShare(worker)
        self._held: dict[int, anyio.CancelScope] = {}
        self.seeking: set[int] = set()

    async def look(self, views: list[PartitionView], workers: int) -> Sequence[int]:
        """Give up the partitions that other workers should own, and return the partitions that this
        worker should try to take. Also publish a claim (`NatsPartitionLog.claim`) to each wanted
        partition that has no unhandled item, because a worker becomes the owner by getting an item.
        Raises `ClusterError`."""
        change = self._share.decide(
            views,
            held=self._held,
            seeking=self.seeking,
            workers=workers,
            now=anyio.current_time(),
        )
        for partition in change.give_up:
            self._held[partition].cancel()
        wanted = {*change.take, *self.seeking}
        for view in claims({view.partition: view for view in views}, wanted):
            await self._log.claim(view)
        return change.take

    async def take(self, number: int) -> None:
        """Try to become the owner of a partition. If that succeeds, run the worker's work for this
        partition until it ends or the partition is given up."""
        try:
            async with self._log.partition(number) as partition:
                try:
                    owned = await partition.seek()
                finally:
                    self.seeking.discard(number)
                if not owned:
                    return
                with anyio.CancelScope() as scope:
                    self._held[number] = scope
                    await partition.hold(self._log.book, self._worker, self._work)
                self._share.rest(number, anyio.current_time())
        except (ClusterError, OwnershipLost, nats.errors.Error, OSError) as error:
            logger.warning("{} cannot take partition {}: {}", self._worker, number, error)
        finally:
            self.seeking.discard(number)
            self._held.pop(number, None)


def _view(partition: int, info: dict[str, Any]) -> PartitionView:
    return PartitionView(
        partition=partition,
        owned=bool(pinned_client(info)),
        idle=not info.get("num_pending") and not info.get("num_ack_pending"),
        newest=int(info["delivered"]["stream_seq"]),
    )
