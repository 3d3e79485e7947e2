"""Decides which partitions a worker should own. It does no I/O."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

_REST_S = 3.0
"""Seconds for which a worker does not take a partition that it has given up, so that another worker
can take it."""
_ORPHAN_S = 0.5
"""If a partition has had no owner for this many seconds, each worker may take it, even beyond its
share. Usually, that is when a worker looks for the second time. If the last owner was killed, it is
still counted as a worker for a few seconds, and its share would lie idle for that time."""

AWAY = "away"
"""A value of `PartitionView.made`: the consumer exists, and no server that has it answers."""
_KEEP_S = 3.0
"""Seconds for which a worker keeps a partition that it has just taken, even above its share. In
this time it answers the messages that waited for an owner. Without this, the chats of a killed
worker waited twice: for the worker that took them, and for the killed one, which was back 2 s later
and got its share."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """What a worker sees of a partition.

    Attributes:
        partition: The partition.
        owned: Whether it has an owner.
        idle: Whether the partition has no unhandled item. A worker becomes the owner by getting an
            item, so an idle partition gets no owner until an item is published to it.
        newest: The sequence number, in the stream, of the newest item that was given to an owner.
        made: When the partition's consumer was made, as NATS says it. Empty if the consumer is
            missing, and `AWAY` if no NATS server that has it answers. Such a partition counts as
            owned, because nobody can take it.
    """

    partition: int
    owned: bool
    idle: bool
    newest: int
    made: str = ""


@dataclass(frozen=True, slots=True)
class ShareChange:
    """The partitions that a worker should take and give up now.

    Attributes:
        take: The partitions to take.
        give_up: The partitions to give up.
    """

    take: Sequence[int]
    give_up: Sequence[int]


@dataclass(slots=True)
class WorkerShare:
    """Decides the partitions of one worker. It remembers since when each partition has no owner,
    since when the worker owns its partitions, and which it has given up lately."""

    worker: str
    _taken: dict[int, float] = field(default_factory=dict)
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
        """Return the partitions that the worker should take, and those that it should give up.

        ``held`` has the partitions that the worker owns, ``seeking`` those that it is trying to
        take. ``workers`` is the number of all workers, this one included. ``now`` is a time in
        seconds on a monotonic clock.
        """
        share = -(-len(views) // max(workers, 1))
        self._taken = {each: self._taken.get(each, now) for each in held}
        surplus = sorted(held, key=self._order)[share:]
        give_up = [each for each in surplus if now - self._taken[each] >= _KEEP_S]
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
        """From ``now`` on, do not take a partition for `_REST_S` seconds."""
        self._rests[partition] = now + _REST_S

    def _see(self, views: Sequence[PartitionView], now: float) -> None:
        for view in views:
            if view.owned:
                self._orphaned.pop(view.partition, None)
            else:
                self._orphaned.setdefault(view.partition, now)
        self._rests = {each: until for each, until in self._rests.items() if until > now}

    def _order(self, partition: int) -> bytes:
        """Return the key by which this worker sorts the partitions. Each worker has another order,
        so that two workers do not try to take the same partitions first."""
        return hashlib.blake2b(f"{self.worker} {partition}".encode(), digest_size=8).digest()


def claims(views: Mapping[int, PartitionView], take: Collection[int]) -> Sequence[PartitionView]:
    """Return those of the partitions ``take``, which a worker wants to own, that have no unhandled
    item. They need a claim (`NatsPartitionLog.claim`) to get an owner."""
    return [views[each] for each in take if views[each].idle]
