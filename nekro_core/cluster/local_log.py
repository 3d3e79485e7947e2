"""Implements the partitions' log in the memory of one process."""

from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Self

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.cluster.errors import ClusterError, LogFull
from nekro_core.cluster.partition_log import (
    DEFAULT_PARTITIONS,
    EpochBook,
    PartitionItem,
    PartitionWork,
    check_item,
    check_partitions,
    check_worker,
)
from nekro_core.store import Ownership, StoreError

_KNOWN_S = 120.0
"""Seconds for which the log remembers an item's id, as on NATS. An item with a remembered id is not
stored again."""
_MOST_ITEMS = 100_000
"""Maximum number of items that wait in all partitions together. They are in memory. An item names
a stored row and has a few hundred bytes, so they take some tens of MB."""
_RELEASE_S = 2.0
"""Time limit in seconds for storing that a partition was given up. If it is not stored, the next
owner gets a greater epoch all the same."""
_AGAIN_S = 1.0
"""If the work of a partition returns or fails, the partition gets an owner again after this many
seconds."""


@dataclass(slots=True)
class _Stored:
    data: bytes
    tries: int = 0


@dataclass(slots=True, eq=False)
class _Partition:
    """The items of one partition that were not handled yet, and the partition's owner."""

    number: int
    waiting: deque[_Stored] = field(default_factory=deque)
    came: anyio.Event = field(default_factory=anyio.Event)
    owner: str = ""
    scope: anyio.CancelScope | None = None


class _LocalPartition:
    """Implements `OwnedPartition`."""

    def __init__(self, partition: _Partition, ownership: Ownership) -> None:
        self._partition = partition
        self._given: _Stored | None = None
        self.ownership = ownership

    def items(self) -> AsyncIterator[PartitionItem]:
        """See `OwnedPartition.items`."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PartitionItem:
        partition = self._partition
        if self._given is not None:
            partition.waiting.popleft()
            self._given = None
        while not partition.waiting:
            partition.came = anyio.Event()
            await partition.came.wait()
        self._given = partition.waiting[0]
        self._given.tries += 1
        return PartitionItem(self._given.data, self._given.tries)


class LocalPartitionLog:
    """Implements `PartitionLog` for the workers of one process. Items that were not handled are
    lost when the process ends. The records that they name stay in the database."""

    def __init__(
        self,
        book: EpochBook,
        partitions: int = DEFAULT_PARTITIONS,
        *,
        most_items: int = _MOST_ITEMS,
        again_s: float = _AGAIN_S,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        check_partitions(partitions)
        self._book = book
        self._partitions = [_Partition(number) for number in range(partitions)]
        self._most_items = most_items
        self._again_s = again_s
        self._clock = clock
        self._known: OrderedDict[tuple[int, str], float] = OrderedDict()
        self._workers: list[str] = []
        self._changed = anyio.Event()

    @property
    def partitions(self) -> int:
        """See `PartitionLog.partitions`."""
        return len(self._partitions)

    async def publish(self, partition: int, item: bytes, *, item_id: str) -> None:
        """See `PartitionLog.publish`."""
        check_item(partition, self.partitions, item, item_id)
        now = self._clock()
        while self._known and next(iter(self._known.values())) < now - _KNOWN_S:
            self._known.popitem(last=False)
        if (partition, item_id) in self._known:
            return
        if (waiting := sum(len(each.waiting) for each in self._partitions)) >= self._most_items:
            raise LogFull(f"{waiting} items wait already: the worker is too slow, or there is none")
        self._known[partition, item_id] = now
        into = self._partitions[partition]
        into.waiting.append(_Stored(item))
        into.came.set()

    async def own(self, worker: str, work: PartitionWork) -> None:
        """See `PartitionLog.own`."""
        check_worker(worker)
        if worker in self._workers:
            raise ValueError(f"worker {worker!r} owns partitions of this log already")
        self._workers.append(worker)
        self._tell()
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    changed = self._changed
                    self._share_out(worker, work, tasks)
                    await changed.wait()
        finally:
            self._workers.remove(worker)
            self._tell()

    def _share_out(self, worker: str, work: PartitionWork, tasks: TaskGroup) -> None:
        """Take the partitions of a worker's share that have no owner, and give up the worker's
        partitions outside of its share. Each worker's share is every n-th partition, for n
        workers."""
        place, workers = self._workers.index(worker), len(self._workers)
        for partition in self._partitions:
            falls_to_worker = partition.number % workers == place
            if not partition.owner and falls_to_worker:
                partition.owner = worker
                partition.scope = anyio.CancelScope()
                tasks.start_soon(self._work, partition, worker, work, partition.scope)
            elif partition.owner == worker and not falls_to_worker:
                assert partition.scope is not None
                partition.scope.cancel()

    async def _work(
        self, partition: _Partition, worker: str, work: PartitionWork, scope: anyio.CancelScope
    ) -> None:
        ownership: Ownership | None = None
        try:
            with scope:
                try:
                    ownership = await self._book.take(partition.number, worker)
                    await work(_LocalPartition(partition, ownership))
                except Exception:  # noqa: BLE001 (a fault of one partition must not end the others)
                    logger.exception("the work of partition {} failed", partition.number)
                await anyio.sleep(self._again_s)
        finally:
            if ownership is not None:
                with anyio.move_on_after(_RELEASE_S, shield=True):
                    await self._release(ownership)
            partition.owner, partition.scope = "", None
            self._tell()

    async def _release(self, ownership: Ownership) -> None:
        try:
            await self._book.release(ownership)
        except (StoreError, ClusterError) as error:
            # This does no harm: the next owner gets a greater epoch, and then writes with this one
            # are refused.
            logger.debug("{} was not released: {}", ownership, error)

    def _tell(self) -> None:
        """Wake all workers, so that they compare their partitions with their shares again."""
        self._changed.set()
        self._changed = anyio.Event()
