"""Counts how often owners of a partition took an item up without finishing it.

An item that ends its process, for example in a plugin's hook, would end the process of each next
owner too. So an owner stores a row before it works on an item, and deletes the row when it has
finished the item or gives the partition up. The rows that are left were written by owners that
ended in the middle of their work.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.ownership import Ownership, writing_as

_ROWS = 500
"""Maximum number of rows that one statement deletes by their items. PostgreSQL accepts at most
32,767 values in a statement."""


class ItemTakeRepository:
    """The items that owners of partitions have taken up. Raises `StoreError`."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._finished: list[tuple[Ownership, str]] = []

    async def take(self, owned: Ownership, items: Sequence[str]) -> None:
        """Store that an owner takes items up. Returns when this is committed. An item that this
        owner has taken already stays taken. Raises `OwnershipLost` and `StoreUnavailable`."""
        if not items:
            return
        now = self._clock()
        with writing_as(owned):
            await self._database.write(
                *(
                    SqlStatement(
                        "INSERT INTO item_takes (item, partition, epoch, taken) "
                        "VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                        (item, owned.partition, owned.epoch, now),
                    )
                    for item in items
                )
            )

    async def renew(self, owned: Ownership, item: str) -> None:
        """Store that the owner that took an item still works on it, perhaps after it has lost the
        partition. Raises `StoreUnavailable`."""
        with writing_as(None):  # The ownership may be over already.
            await self._database.write(
                SqlStatement(
                    "UPDATE item_takes SET taken = ? "
                    "WHERE partition = ? AND epoch = ? AND item = ? AND taken < ?",
                    (now := self._clock(), owned.partition, owned.epoch, item, now),
                )
            )

    async def last_taken(self, owned: Ownership, item: str) -> float | None:
        """Return when an earlier owner of a partition took an item up, or last renewed that; None
        if each of them has finished it. Raises `StoreUnavailable`."""
        (row,) = await self._database.read(
            "SELECT MAX(taken) AS newest FROM item_takes "
            "WHERE partition = ? AND epoch < ? AND item = ?",
            owned.partition,
            owned.epoch,
            item,
        )
        return None if row["newest"] is None else float(row["newest"])

    def finish(self, owned: Ownership, item: str) -> None:
        """Delete the rows of an item, those of earlier owners too, together with the next
        transaction or within a second. If the process ends before that, the item counts as not
        finished."""
        self._finished.append((owned, item))
        self._database.write_later(self._deletions)

    async def release(self, owned: Ownership, keep: Collection[str]) -> None:
        """Delete all rows of an ownership except those of the items ``keep``: its process lives, so
        none of the items has ended it."""
        kept = f" AND item NOT IN ({', '.join('?' * len(keep))})" if keep else ""
        with writing_as(None):  # The ownership may be over already.
            await self._database.write(
                SqlStatement(
                    f"DELETE FROM item_takes WHERE partition = ? AND epoch = ?{kept}",
                    (owned.partition, owned.epoch, *keep),
                )
            )

    async def unfinished(self, owned: Ownership, *, since: float) -> Counter[str]:
        """Return how many earlier owners of a partition took each item up and did not finish it.
        Rows from before ``since`` (in seconds since 1970) are deleted: the items are so old that
        nobody takes them up again."""
        with writing_as(None):
            await self._database.write(
                SqlStatement(
                    "DELETE FROM item_takes WHERE partition = ? AND taken < ?",
                    (owned.partition, since),
                )
            )
        rows = await self._database.read(
            "SELECT item, COUNT(*) AS number FROM item_takes WHERE partition = ? AND epoch < ? "
            "GROUP BY item",
            owned.partition,
            owned.epoch,
        )
        return Counter({row["item"]: int(row["number"]) for row in rows})

    def _deletions(self) -> Sequence[SqlStatement]:
        """Return the statements that delete the rows of all finished items."""
        of_owner: dict[Ownership, list[str]] = {}
        for owned, item in self._finished:
            of_owner.setdefault(owned, []).append(item)
        self._finished.clear()
        return [
            SqlStatement(
                "DELETE FROM item_takes WHERE partition = ? AND epoch <= ? "
                f"AND item IN ({', '.join('?' * len(some))})",
                (owned.partition, owned.epoch, *some),
            )
            for owned, items in of_owner.items()
            for at in range(0, len(items), _ROWS)
            if (some := items[at : at + _ROWS])
        ]
