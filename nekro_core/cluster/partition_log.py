"""Defines the log from which workers take their work, and who owns a part of it.

Each chat belongs to one of a fixed number of partitions. A gateway publishes an item to the
partition of a chat. At any time one worker owns a partition. Its owner gets the partition's items
in order, one at a time.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from nekro_core.chat import ChatKey
from nekro_core.store import Ownership

DEFAULT_PARTITIONS = 64
"""Number of partitions of a new cluster. It bounds the number of workers that can share the work,
and it cannot be changed later, because a chat would get another partition."""
MOST_PARTITIONS = 1024
"""Upper bound of the number of partitions. An owner renews each of its partitions once a second."""
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
        data: What was published.
        tries: How many times the item was given to an owner, with this time. It is more than 1
            after an owner failed or ended before it had handled the item.
    """

    data: bytes
    tries: int


class OwnedPartition(Protocol):
    """A partition that this worker owns now."""

    @property
    def ownership(self) -> Ownership:
        """The number of this ownership."""

    def items(self) -> AsyncIterator[PartitionItem]:
        """Iterate over the items of the partition, in the order in which they were published.

        An item counts as handled when the next one is asked for. An item that was not handled is
        given to the partition's next owner, so an item may be given out more than once, but never
        to two current owners. The iteration never ends by itself.
        """


PartitionWork = Callable[[OwnedPartition], Awaitable[None]]
"""What a worker does with a partition while it owns it. It is cancelled when the ownership ends. If
it returns or raises, the worker gives the partition up, and any worker may take it again after a
pause."""


class EpochBook(Protocol):
    """Counts the changes of ownership, for all processes of the cluster."""

    async def take(self, partition: int, worker: str) -> Ownership:
        """Write down that a worker has become the owner, and return a number that no earlier
        owner had. Raises `StoreError` or `ClusterError`."""

    async def release(self, owned: Ownership) -> bool:
        """Write down that the owner has given the partition up, so that its number is void. Returns
        False if the number was void already. Raises `StoreError` or `ClusterError`."""


class PartitionLog(Protocol):
    """The log of all partitions."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    async def publish(self, partition: int, item: bytes, *, item_id: str) -> None:
        """Append an item to a partition. When this method returns, the item is stored.

        An item whose ``item_id`` was published to this partition within the last two minutes is
        not stored again. Raises `ValueError` (no such partition, item too large, bad id), `LogFull`
        and `ClusterUnavailable`. After the latter, the item may have been stored; publish it again
        with the same id.
        """

    async def own(self, worker: str, work: PartitionWork) -> None:
        """Own a share of the partitions, and do the work of each, until the caller cancels.

        All workers together own every partition, and each owns about as many as another. If a
        worker ends, its partitions are handed over at once; if it is killed, they are taken over
        after some seconds. ``worker`` is a name that no other worker has at this time: 1 to 64
        letters, digits, ``_`` and ``-``.
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
    """Raise `ValueError` if a name of a worker is not allowed."""
    plain = worker.replace("_", "").replace("-", "")
    if not 0 < len(worker) <= 64 or not worker.isascii() or (plain and not plain.isalnum()):
        raise ValueError(f"worker {worker!r}: expected 1 to 64 letters, digits, '_' and '-'")


def check_partitions(partitions: int) -> None:
    """Raise `ValueError` if a log cannot have this number of partitions."""
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"{partitions} partitions: expected 1 to {MOST_PARTITIONS}")
