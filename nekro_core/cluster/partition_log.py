"""Defines the log that brings work to the workers, and the ownership of its partitions.

Each chat belongs to one of a fixed number of partitions. When something happens in a chat, a
gateway publishes an item to the chat's partition. At any time, at most one worker owns a partition.
The owner gets the items of the partition in order, one at a time.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from nekro_core.chat import ChatKey
from nekro_core.store import Ownership

DEFAULT_PARTITIONS = 64
"""Number of partitions of a new cluster. More workers than partitions cannot share the work. The
number cannot be changed later, because chats would then belong to other partitions."""
MOST_PARTITIONS = 1024
"""Maximum number of partitions. The owner of a partition must send a request for it about once a
second, so each partition costs work."""
ITEM_BYTES = 256 * 1024
"""Maximum size of one item in bytes. An item names a stored row; it does not carry media."""
ITEM_ID_LENGTH = 200
"""Maximum number of characters of an item's id."""


def partition_of(chat_key: ChatKey, partitions: int) -> int:
    """Return the partition of a chat, from 0 to ``partitions - 1``. The same chat has the same
    partition in every process and version."""
    digest = hashlib.blake2b(str(chat_key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions


@dataclass(frozen=True, slots=True)
class PartitionItem:
    """An item of a partition's log.

    Attributes:
        data: The published bytes.
        tries: How many times the item was given to an owner, including this time. It is more than 1
            after an owner failed or ended before it had handled the item.
    """

    data: bytes
    tries: int


class OwnedPartition(Protocol):
    """A partition that this worker owns now."""

    @property
    def ownership(self) -> Ownership:
        """The partition and the epoch of this ownership."""

    def items(self) -> AsyncIterator[PartitionItem]:
        """Iterate over the items of the partition, in the order in which they were published.

        An item counts as handled when the caller asks for the next item. If an owner ends before it
        has handled an item, the partition's next owner gets this item. So an item may be given out
        more than once, but only to one owner at a time. The iteration never ends by itself.
        """


PartitionWork = Callable[[OwnedPartition], Awaitable[None]]
"""The work that a worker does for a partition while it owns the partition. The work is cancelled
when the ownership ends. If the work returns or raises an error, the worker gives the partition up,
and after a pause any worker may take the partition."""


class EpochBook(Protocol):
    """Stores who owns each partition, for all processes of the cluster, and numbers the ownerships
    of a partition (the epoch)."""

    async def take(self, partition: int, worker: str) -> Ownership:
        """Store that a worker has become the owner of a partition. The returned ownership has a
        greater epoch than all earlier ones of this partition. Raises `StoreError` or
        `ClusterError`."""

    async def release(self, owned: Ownership) -> bool:
        """Store that the owner has given the partition up. Its epoch is no longer valid. Returns
        False if the epoch was invalid already. Raises `StoreError` or `ClusterError`."""

    async def invalid(self, owned: Collection[Ownership]) -> Collection[Ownership]:
        """Return those ownerships that are no longer valid. Raises `StoreError` or
        `ClusterError`."""


class PartitionLog(Protocol):
    """The log of all partitions."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    async def publish(self, partition: int, item: bytes, *, item_id: str) -> None:
        """Append an item to a partition. When this method returns, the item is stored.

        An item whose ``item_id`` was published to this partition within the last two minutes is not
        stored again. Raises `ValueError` (no such partition, item too large, bad id), `LogFull` and
        `ClusterUnavailable`. After `ClusterUnavailable`, the item may have been stored. Publish it
        again with the same id.
        """

    async def own(self, worker: str, work: PartitionWork) -> None:
        """Own a share of the partitions, and run ``work`` for each of them, until the caller
        cancels.

        All workers together own all partitions, and each worker owns about the same number. If a
        worker ends, it gives its partitions to the other workers at once. If it is killed, they
        take its partitions over after some seconds. ``worker`` is the name of this worker, which no
        other running worker may have: 1 to 64 letters, digits, ``_`` and ``-``.
        """


def check_item(partition: int, partitions: int, item: bytes, item_id: str) -> None:
    """Raise `ValueError` if an item cannot be published."""
    if not 0 <= partition < partitions:
        raise ValueError(
            f"partition {partition}: this log has the partitions 0 to {partitions - 1}"
        )
    if len(item) > ITEM_BYTES:
        raise ValueError(f"an item of {len(item)} bytes: at most {ITEM_BYTES} are allowed")
    if not 0 < len(item_id) <= ITEM_ID_LENGTH or not item_id.isascii() or not item_id.isprintable():
        raise ValueError(
            f"item id {item_id[:ITEM_ID_LENGTH]!r}: expected 1 to {ITEM_ID_LENGTH} visible "
            "characters of ASCII"
        )


def check_worker(worker: str) -> None:
    """Raise `ValueError` if a worker cannot have this name."""
    plain = worker.replace("_", "").replace("-", "")
    if not 0 < len(worker) <= 64 or not worker.isascii() or (plain and not plain.isalnum()):
        raise ValueError(f"worker {worker!r}: expected 1 to 64 letters, digits, '_' and '-'")


def check_partitions(partitions: int) -> None:
    """Raise `ValueError` if a log cannot have this number of partitions."""
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"{partitions} partitions: expected 1 to {MOST_PARTITIONS}")
