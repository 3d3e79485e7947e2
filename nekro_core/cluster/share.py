"""Decides which partitions a worker should own. It does no I/O."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

_REST_S = 3.0
"""A worker does not take a partition that it gave up for so many seconds, so that another worker
can."""
_ORPHAN_S = 1.0
"""If a partition has had no owner for so many seconds, each worker may take it, even beyond its
share. Its owner may have been killed, and it still counts as a worker for a while."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """What a worker sees of a partition.

    Attributes:
        partition: The partition.
        owned: Whether it has an owner.
        idle: Whether no item waits in it, so that nobody becomes its owner by getting an item.
        newest: The number of the newest item that an owner has got.
    """

    partition: int
    owned: bool
    idle: bool
    newest: int


@dataclass(frozen=True, slots=True)
class ShareChange:
    """What a worker should do now.

    Attributes:
        take: The partitions to take.
        give_up: The partitions to give up.
    """

    take: Sequence[int]
    give_up: Sequence[int]


@dataclass(slots=True)
class WorkerShare:
    """Remembers what a worker has seen and given up."""

    worker: str
    _rests: dict[int, float] = field(default_factory=dict)
    _orphaned: dict[int, float] = field(default_factory=dict)

    def decide(
        self,
        views: Sequence[PartitionView],
        *,
        held: Collection[int],
        seeking: Collection[int],
        workers: int,
        now: float,
    ) -> ShareChange:
        """Return what to take and what to give up.

        ``held`` are the worker's own partitions, ``seeking`` those that it tries to take, and
        ``workers`` is the number of workers with this one. ``now`` is a time in seconds, on a clock
        that is not set.
        """
        share = -(-len(views) // max(workers, 1))
        give_up = sorted(held, key=self._order)[share:]
        for partition in give_up:
            self.rest(partition, now)
        self._see(views, now)
        room = share - len(held) - len(seeking)
        take: list[int] = []
        for view in sorted(views, key=lambda view: self._order(view.partition)):
            free = not view.owned and view.partition not in held and view.partition not in seeking
            if not free or self._rests.get(view.partition, 0.0) > now:
                continue
            if room > 0:
                room -= 1
                take.append(view.partition)
            elif now - self._orphaned[view.partition] >= _ORPHAN_S:
                take.append(view.partition)
        return ShareChange(take, give_up)

    def rest(self, partition: int, now: float) -> None:
        """Do not take a partition again for some seconds."""
        self._rests[partition] = now + _REST_S

    def _see(self, views: Sequence[PartitionView], now: float) -> None:
        for view in views:
            if view.owned:
                self._orphaned.pop(view.partition, None)
            else:
                self._orphaned.setdefault(view.partition, now)
        self._rests = {each: until for each, until in self._rests.items() if until > now}

    def _order(self, partition: int) -> bytes:
        """Each worker has an order of its own, so that two workers do not try to take the same
        partitions at the same time."""
        return hashlib.blake2b(f"{self.worker} {partition}".encode(), digest_size=8).digest()


def claims(views: Mapping[int, PartitionView], take: Collection[int]) -> Sequence[PartitionView]:
    """Return the partitions in which no item waits, of those that a worker wants to take."""
    return [views[each] for each in take if views[each].idle]
