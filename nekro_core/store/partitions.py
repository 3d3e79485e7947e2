"""Stores which process owns each partition of the chats. Each chat belongs to one partition, whose
number is computed from the chat key."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from secrets import token_hex

from nekro_core.store.database import Database, Rows, SqlStatement, owner_query
from nekro_core.store.errors import StoreError
from nekro_core.store.limits import MAX_ID
from nekro_core.store.ownership import Ownership, writing_as

_TOKEN_BYTES = 16
"""Random bytes in the token of an owner: too many to guess."""
MOST_PARTITIONS = 4096
"""Maximum number of partitions. The first start writes a row for each partition in one statement,
and a PostgreSQL server accepts at most 32,767 values in a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOwner:
    """The owner of a partition.

    Attributes:
        partition: The number of the partition.
        epoch: How often its owner has changed.
        worker: The name of the process that owns it; empty if no process does.
        taken: When the epoch began, in seconds since 1970.
    """

    partition: int
    epoch: int
    worker: str
    taken: float


class PartitionRepository:
    """The partitions and their owners. Raises `StoreUnavailable`."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def prepare(self, count: int) -> None:
        """Store the number of partitions at the first start. At each later start, compare ``count``
        with the stored number. The number cannot change, because a chat's partition is computed
        from the chat key and this number. Raises `StoreError` if another number is stored."""
        if not 1 <= count <= MOST_PARTITIONS:
            raise StoreError(f"{count} partitions: expected 1 to {MOST_PARTITIONS}")
        if not await self._count():
            rows = ", ".join(["(?, 0, '', 0)"] * count)
            await self._write(
                SqlStatement(
                    "INSERT INTO partition_owners (partition, epoch, worker, taken) "
                    f"VALUES {rows} ON CONFLICT DO NOTHING",
                    tuple(range(count)),
                )
            )
        stored = await self._count()
        if stored != count:
            raise StoreError(
                f"{count} partitions are set, but this database was begun with {stored}: the "
                f"number of partitions never changes. Set {stored}, or begin with an empty database"
            )

    async def take(self, partition: int, worker: str) -> Ownership:
        """Make a process the owner of a partition, with a new epoch.

        This waits until all writes that the earlier owner has begun are committed or refused. When
        this method has returned, no write of an earlier owner is stored any more. So the new owner
        can read everything that the earlier owner has stored.
        """
        secret = token_hex(_TOKEN_BYTES)
        (rows,) = await self._write(
            SqlStatement(
                "INSERT INTO partition_owners (partition, epoch, worker, taken, token) "
                "VALUES (?, 1, ?, ?, '1.' || CAST(? AS TEXT)) "
                "ON CONFLICT (partition) DO UPDATE SET "
                "epoch = partition_owners.epoch + 1, worker = excluded.worker, "
                "taken = excluded.taken, token = CAST(partition_owners.epoch + 1 AS TEXT) || '.' "
                "|| CAST(? AS TEXT) RETURNING epoch, token",
                (partition, worker[:MAX_ID], self._clock(), secret, secret),
            )
        )
        return Ownership(partition, rows[0]["epoch"], rows[0]["token"])

    async def release(self, ownership: Ownership) -> bool:
        """Give a partition up. The epoch grows, so this ownership is invalid from now on. Returns
        False if it was invalid already: another process has taken the partition, or it was given up
        before."""
        (rows,) = await self._write(
            SqlStatement(
                "UPDATE partition_owners SET epoch = epoch + 1, worker = '', taken = ? "
                "WHERE partition = ? AND epoch = ? RETURNING epoch",
                (self._clock(), ownership.partition, ownership.epoch),
            )
        )
        return bool(rows)

    async def is_current(self, ownership: Ownership) -> bool:
        """Return whether an ownership is valid at this moment, and its token, if it has one, is
        right. Call this before an action that writes no row. Writes need no such call: the database
        checks the ownership that they carry."""
        sql, values = owner_query(ownership)
        return bool(await self._database.read(sql, *values))

    async def invalid(self, owned: Collection[Ownership]) -> Collection[Ownership]:
        """Return those of these ownerships that are not valid at this moment. This is one query for
        all of them."""
        if not owned:
            return ()
        epochs = {each.partition: each.epoch for each in await self.all()}
        return [each for each in owned if epochs.get(each.partition) != each.epoch]

    async def all(self) -> list[PartitionOwner]:
        """Get all partitions, by their number."""
        rows = await self._database.read("SELECT * FROM partition_owners ORDER BY partition")
        return [
            PartitionOwner(
                partition=row["partition"],
                epoch=row["epoch"],
                worker=row["worker"],
                taken=row["taken"],
            )
            for row in rows
        ]

    async def _count(self) -> int:
        (row,) = await self._database.read("SELECT COUNT(*) AS number FROM partition_owners")
        return int(row["number"])

    async def _write(self, statement: SqlStatement) -> list[Rows]:
        """Write without an ownership: the statements of this class decide who is the owner."""
        with writing_as(None):
            return await self._database.write(statement)
