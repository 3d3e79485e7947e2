"""Implements the partitions' log on NATS JetStream.

One stream holds the items of all partitions. It has one subject and one durable consumer for each
partition. JetStream stores the items, gives the items of each partition out in order, and decides
which worker may become the owner of a partition (`nats_partition.py`).
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
from nekro_core.cluster.nats_presence import WorkerPresence, make_presence_stream
from nekro_core.cluster.nats_stream import (
    NO_GATEWAY,
    GoneNotice,
    check_stream,
    consumer_config,
    missing_consumers,
)
from nekro_core.cluster.partition_log import (
    DEFAULT_PARTITIONS,
    EpochBook,
    PartitionWork,
    check_item,
    check_partitions,
    check_worker,
)
from nekro_core.cluster.share import AWAY, PartitionView, WorkerShare, claims
from nekro_core.cluster.subjects import PARTITION_STREAM, PARTITION_SUBJECT, PRESENCE_STREAM
from nekro_core.store import OwnershipLost, StoreError

_FULL = "maximum"
"""A word in JetStream's error text (``maximum messages exceeded``) when it refuses an item because
the stream is full."""

_STREAMS = (PARTITION_STREAM, PRESENCE_STREAM)
_GONE_REMEDY = (
    "Nothing is answered until a gateway makes it again, which takes some seconds. If it does not "
    "come back, start a gateway"
)
_COMPARE_S = 1.0
"""Seconds after which this worker checks again whether the epochs of its partitions are still
valid. This is one query for all partitions."""


class NatsPartitionLog:
    """Implements `PartitionLog`. Use `NatsPartitionLog.open`."""

    def __init__(
        self,
        connection: NatsConnection,
        book: EpochBook,
        partitions: int,
        times: OwnershipTimes,
        replicas: int = 1,
    ) -> None:
        self._connection = connection
        self._book = book
        self._partitions = partitions
        self._times = times
        self._replicas = replicas

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
        log = cls(connection, book, partitions, times or OwnershipTimes(), replicas)
        if make:
            await log.make_missing()
            return log
        await check_stream(connection, partitions, 0)
        if not all(view.made for view in await log.look()):
            raise ClusterUnavailable(NO_GATEWAY)
        return log

    async def make_missing(self) -> None:
        """Make the streams and the consumers of the log that are missing. Raises
        `ClusterMisconfigured` and `ClusterUnavailable`."""
        await check_stream(self._connection, self._partitions, self._replicas)
        await make_presence_stream(self._connection, self._times.worker_s)
        for partition in [view.partition for view in await self.look() if not view.made]:
            await self._connection.api(
                f"CONSUMER.CREATE.{PARTITION_STREAM}.{consumer_of(partition)}.{PARTITION_SUBJECT}.{partition}",
                {
                    "stream_name": PARTITION_STREAM,
                    "config": consumer_config(partition, self._times),
                },
            )

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
        try:
            async with anyio.create_task_group() as tasks:
                owner = _Owner(self, worker, work)
                gone = GoneNotice(f"worker {worker}", _GONE_REMEDY)
                tasks.start_soon(owner.give_up_lost)
                while True:
                    began = anyio.current_time()
                    try:
                        views = await self.look()
                        for view in await owner.look(views, await presence.count(), began):
                            owner.seeking.add(view.partition)
                            tasks.start_soon(owner.take, view)
                        gone.note(missing_consumers(views))
                    except ClusterError as error:
                        if isinstance(error, JetStreamRefused) and error.missing:
                            said = str(error)
                            gone.note([f"the stream {each}" for each in _STREAMS if each in said])
                        else:
                            logger.warning("{} cannot look at the partitions: {}", worker, error)
                    await anyio.sleep(self._times.look_s)
        finally:
            await presence.leave()

    async def look(self) -> list[PartitionView]:
        """Return the state of every partition, also of those whose consumer is missing. Raises
        `ClusterError`."""
        views: dict[int, PartitionView] = {}
        names = {consumer_of(partition): partition for partition in range(self._partitions)}
        offset, total = 0, 1
        while offset < total:
            answer = await self._connection.api(
                f"CONSUMER.LIST.{PARTITION_STREAM}", {"offset": offset}
            )
            found = answer.get("consumers") or []
            for info in found:
                if (partition := names.get(info["name"])) is not None:
                    views[partition] = _view(partition, info)
            total = int(answer.get("total", 0))
            offset += len(found)
            # Several NATS servers may have the consumers, and one of them may be away.
            for name in answer.get("missing") or []:
                if (partition := names.get(name)) is not None:
                    views[partition] = PartitionView(partition, True, False, 0, AWAY)
            if not found:
                break
        return [
            views.get(each, PartitionView(each, owned=True, idle=False, newest=0))
            for each in range(self._partitions)
        ]

    async def claim(self, view: PartitionView) -> None:
        """Publish an item without content. The worker that gets this item becomes the owner of the
        partition. If several workers publish it, it is stored once, because its id is the same."""
        # A consumer that was made again begins with the same numbers.
        claim_id = f"claim.{view.partition}.{view.newest}.{view.made}"
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
        self._partitions: dict[int, NatsPartition] = {}
        self._made: dict[int, str] = {}
        """When the consumer of each held partition was made."""
        self.seeking: set[int] = set()

    async def look(
        self, views: list[PartitionView], workers: int, began: float
    ) -> Sequence[PartitionView]:
        """Give up the partitions that other workers should own, and return the partitions that this
        worker should try to take. Also publish a claim (`NatsPartitionLog.claim`) to each wanted
        partition that has no unhandled item, because a worker becomes the owner by getting an
        item. A claim that cannot be published is published again at the next look.

        ``views`` were read after the time ``began``. If they show no owner of a partition for which
        this worker got its pin before ``began``, the pin has run out."""
        self._give_up_made_again(views)
        for view in views:
            held = self._partitions.get(view.partition)
            if held is not None and not view.owned and held.pinned < began:
                held.pin_ran_out()
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
        try:
            for view in claims({view.partition: view for view in views}, wanted):
                await self._log.claim(view)
        except ClusterError as error:
            # The partitions that have items need no claim. If the log is full, it accepts claims
            # only after the items of these partitions were handled.
            logger.warning("{} cannot claim idle partitions: {}", self._worker, error)
        return [view for view in views if view.partition in change.take]

    def _give_up_made_again(self, views: list[PartitionView]) -> None:
        """Give up each partition whose consumer was deleted and made again. Its items were lost,
        and the new ones have numbers that this worker has seen. Its next owner, which may be this
        worker, looks into the database for what nobody has answered."""
        for view in views:
            before = self._made.get(view.partition)
            if before is not None and view.made not in ("", AWAY, before):
                logger.info("{} takes partition {} again", self._worker, view.partition)
                del self._made[view.partition]
                self._held[view.partition].cancel()

    async def give_up_lost(self) -> None:
        """Give up each partition for which this worker's epoch is no longer valid, although NATS
        still gives its items to this worker. Never returns.

        Another worker can have stored the next epoch and then lost its pin, for example because
        NATS was started again. Nobody would serve such a partition: this worker can store nothing
        for it, and the other worker gets no items.
        """
        while True:
            await anyio.sleep(_COMPARE_S)
            owned = [each.taken for each in self._partitions.values() if each.taken is not None]
            try:
                lost = await self._log.book.invalid(owned)
            except (StoreError, ClusterError) as error:
                logger.debug("{} cannot compare its epochs now: {}", self._worker, error)
                continue
            for ownership in lost:
                partition = self._partitions.get(ownership.partition)
                if partition is not None and partition.taken == ownership:
                    logger.info("{} gives up a partition of another worker", ownership)
                    self._held[ownership.partition].cancel()

    async def take(self, view: PartitionView) -> None:
        """Try to become the owner of a partition. If that succeeds, run the worker's work for this
        partition until it ends or the partition is given up."""
        number = view.partition
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
                    self._made[number] = view.made
                    self._partitions[number] = partition
                    await partition.hold(self._log.book, self._worker, self._work)
                if number in self._made:  # else this worker may take it again at once
                    self._share.rest(number, anyio.current_time())
        except (ClusterError, OwnershipLost, nats.errors.Error, OSError) as error:
            logger.warning("{} cannot take partition {}: {}", self._worker, number, error)
        finally:
            self.seeking.discard(number)
            self._held.pop(number, None)
            self._made.pop(number, None)
            self._partitions.pop(number, None)


def _view(partition: int, info: dict[str, Any]) -> PartitionView:
    return PartitionView(
        partition=partition,
        owned=bool(pinned_client(info)),
        idle=not info.get("num_pending") and not info.get("num_ack_pending"),
        newest=int(info["delivered"]["stream_seq"]),
        made=str(info["created"]),
    )
