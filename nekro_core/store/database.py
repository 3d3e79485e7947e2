"""Reads from and writes to the database. One task commits all writes, in the order of their calls.

A read goes straight to the engine. A write is queued. The task takes all queued writes and commits
them together. On SQLite, the commit is the slowest part of a write. Under load, many writes share
one commit. Without load, a write does not wait for other writes. Writes are committed in the order
of their calls. So when a reader sees a row, no row with a lower number appears later.

SQL statements have ``?`` for values and use only syntax that both SQLite and PostgreSQL understand.

If several processes share the database, a write can have conditions: an ownership
(`nekro_core.store.ownership`) or a `WriteGuard`. These conditions are checked in the transaction of
the write.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from loguru import logger

from nekro_core.store.engine import Bound, DatabaseEngine, Row, Rows, Value, WrongRowCount
from nekro_core.store.errors import GuardFailed, OwnershipLost, StoreError, StoreUnavailable
from nekro_core.store.guest_queries import GuestQuery
from nekro_core.store.ownership import Ownership, current_ownership, writing_as
from nekro_core.store.pending_seq import final_seq


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """An insert into a table. Inserts of several rows may be merged into one statement. A row that
    conflicts with a unique key is skipped. The first column is unique, and its value is returned
    for each inserted row."""

    table: str
    columns: tuple[str, ...]

    def sql(self, rows: int) -> str:
        """Return the SQL for this number of rows."""
        return _insert_sql(self.table, self.columns, rows)


@lru_cache(64)
def _insert_sql(table: str, columns: tuple[str, ...], rows: int) -> str:
    one = f"({', '.join('?' * len(columns))})"
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) "
        f"VALUES {', '.join([one] * rows)} ON CONFLICT DO NOTHING RETURNING {columns[0]}"
    )


class SqlStatement(NamedTuple):
    """An SQL text with ``?`` for each value, and the values."""

    sql: str | InsertStatement
    values: tuple[Value, ...] = ()


class WriteGuard(NamedTuple):
    """A statement that runs before a write and must return this number of rows. If it returns
    another number, the write is refused."""

    statement: SqlStatement
    rows: int = 1


def upsert(
    table: str, row: Mapping[str, Value], *, key: Collection[str], fixed: Collection[str] = ()
) -> SqlStatement:
    """Return the statement that inserts a row. If a row with the same ``key`` exists, the statement
    updates that row, but not its ``fixed`` columns. The names of tables and columns must be
    constants."""
    changed = (each for each in row if each not in key and each not in fixed)
    return SqlStatement(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) "
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE "
        f"SET {', '.join(f'{each} = excluded.{each}' for each in changed)}",
        tuple(row.values()),
    )


@dataclass(slots=True, eq=False)
class _Write:
    """Statements that are committed together. If the caller is cancelled, only ``done`` is
    cancelled. The statements are still written."""

    statements: tuple[SqlStatement, ...]
    done: "asyncio.Future[list[Rows]]"
    committed: Callable[[list[Rows]], None] | None
    failed: Callable[[], None] | None
    guards: tuple[WriteGuard, ...] = ()
    owner: Ownership | None = None
    results: list[Rows] = field(default_factory=list)

    def refuse(self, error: StoreError) -> None:
        """Tell the caller that nothing of this write was stored."""
        if self.failed is not None:
            self.failed()
        if not self.done.done():
            self.done.set_exception(error)


_LATER_S = 1.0
"""Statements of `Database.write_later` are committed after this many seconds, unless they were
committed together with another transaction before."""
Later = Callable[[], Sequence[SqlStatement]]


class Database:
    """Reads and writes on one engine. Writes need a task that runs `keep`. At most ``batch`` writes
    share one commit. At most ``queue`` writes wait; further writes are refused."""

    def __init__(self, engine: DatabaseEngine, *, batch: int, queue: int = 20_000) -> None:
        self._engine = engine
        self._no_nul = not engine.takes_nul
        self._batch = batch
        self._queue = queue
        self._waiting: deque[_Write] = deque()
        self._later: dict[Later, None] = {}
        self._later_due: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._closing = False
        self._changes: dict[str, int] = {}
        self._empty_at: dict[str, int] = {}
        """Maps tables that were found empty to their `changes_of` just before."""
        self._filled: set[str] = set()

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgres``."""
        return self._engine.dialect

    @property
    def queued_writes(self) -> int:
        """The number of writes that wait for their commit."""
        return len(self._waiting)

    @property
    def shared(self) -> bool:
        """See `DatabaseEngine.shared`."""
        return self._engine.shared

    def changes_of(self, table: str) -> int:
        """Return how many statements with the name of this table this process has committed since
        the first call for this table. While the number stays the same, what was read from the table
        is current, unless other processes share the database. Ask for the number before the
        read."""
        return self._changes.setdefault(table, 0)

    async def may_have_rows(self, table: str) -> bool:
        """Return False if it is certain that a table has no rows. An empty table is read once, and
        then again only after a write to it. The name of the table must be a constant. Raises
        `StoreUnavailable`."""
        if table in self._filled or self.shared:
            return True
        changes = self.changes_of(table)
        if self._empty_at.get(table) == changes:
            return False
        (row,) = await self.read(f"SELECT EXISTS (SELECT 1 FROM {table}) AS found")
        if row["found"]:
            self._filled.add(table)
            return True
        self._empty_at[table] = changes
        return False

    async def listen(self, told: Callable[[str], None], begun: Callable[[], None]) -> None:
        """See `DatabaseEngine.listen`."""
        await self._engine.listen(told, begun)

    async def newest_seq(self, table: str) -> int:
        """See `DatabaseEngine.newest_seq`."""
        return await self._engine.newest_seq(table)

    async def vacuum(self, *, anew: bool) -> None:
        """See `DatabaseEngine.vacuum`."""
        await self._engine.vacuum(anew=anew)

    async def read(self, sql: str, *values: Value) -> Rows:
        """Run a query and return its rows. Raises `StoreUnavailable`."""
        return await self._engine.read(sql, self._clean(values))

    async def guest_select(self, query: GuestQuery) -> Rows:
        """Run a SELECT that a plugin wrote. Raises `GuestQueryRefused` and `StoreUnavailable`."""
        return await self._engine.guest_select(query)

    def write(
        self,
        *statements: SqlStatement,
        guards: Sequence[WriteGuard] = (),
        committed: Callable[[list[Rows]], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> Awaitable[list[Rows]]:
        """Queue statements that are committed together. When this method returns, the statements
        are queued.

        ``guards`` run before the statements, in the same transaction. If one does not return its
        number of rows, nothing is written, and awaiting the result raises `GuardFailed`. If the
        caller runs in a block of `writing_as`, the write also needs that ownership, and awaiting
        the result can raise `OwnershipLost`.

        Await the result to get the rows of each statement. It raises `StoreError` if nothing was
        written. ``committed`` is called in the order of commits, before the caller continues, and
        even if the caller was cancelled. ``failed`` is called if nothing was written, but not if
        the database was already closed when this method was called. Neither callback may raise.
        """
        done: asyncio.Future[list[Rows]] = asyncio.get_running_loop().create_future()
        if len(self._waiting) >= self._queue:
            # The queue is full. Refuse the write, so that a slow disk does not fill the memory.
            if failed is not None:
                failed()
            slow = f"{len(self._waiting)} writes wait already: the disk is too slow, or it is held"
            done.set_exception(StoreUnavailable(slow))
        elif self._closing:
            done.set_exception(StoreUnavailable("the store is closed: nothing more is written"))
        else:
            clean = tuple(SqlStatement(sql, self._clean(values)) for sql, values in statements)
            checks = tuple(
                WriteGuard(SqlStatement(sql, self._clean(values)), rows)
                for (sql, values), rows in guards
            )
            owner = current_ownership()
            self._waiting.append(_Write(clean, done, committed, failed, checks, owner))
            self._wake.set()
        done.add_done_callback(_mark_retrieved)
        return done

    def write_later(self, take: Later) -> None:
        """Commit statements together with the next transaction, or after a second.

        While the bot writes other transactions, these statements need no commit of their own.
        ``take`` is called when the commit begins. It returns the statements, and it must not raise.
        A second call with the same ``take`` before the commit changes nothing. If a statement
        fails, that is logged and the statement is lost.
        """
        self._later[take] = None
        if self._later_due is None:
            self._later_due = asyncio.get_running_loop().call_later(_LATER_S, self._commit_later)

    def _commit_later(self) -> None:
        """Queue the statements of `write_later`."""
        takes, self._later = self._later, {}
        if self._later_due is not None:
            self._later_due.cancel()
            self._later_due = None
        statements = [statement for take in takes for statement in take()]
        if statements:
            lost = partial(logger.error, "{} late statements are not stored", len(statements))
            with writing_as(None):  # The statements come from the work of several owners.
                self.write(*statements, failed=lost)

    async def keep(self) -> None:
        """Commit queued writes until `close`."""
        while self._waiting or not self._closing:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            if self._later and self._needs_transaction():
                self._commit_later()
            taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            await self._commit(taken)

    def _needs_transaction(self) -> bool:
        """Return True if the next commit has several statements. A single statement commits faster
        without a transaction, so the statements of `write_later` are not added to it."""
        return len(self._waiting) > 1 or len(self._waiting[0].statements) > 1

    def close(self) -> None:
        """Refuse new writes. `keep` ends when all queued writes are committed."""
        if not self._closing:
            self._commit_later()
        self._closing = True
        self._wake.set()

    async def _commit(self, writes: list[_Write]) -> None:
        owners = sorted({write.owner for write in writes if write.owner is not None})
        checks = [self._ownership_check(owner) for owner in owners]
        groups = _grouped(writes)
        required = dict.fromkeys(range(len(checks)), 1)
        for position, group in enumerate(groups, len(checks)):
            if group.guarded is not None:
                required[position] = group.rows
        try:
            results = await self._engine.commit(
                [*checks, *(group.bound for group in groups)], required
            )
        except WrongRowCount as error:
            if error.position < len(owners):
                await self._commit_without_lost(writes, owners[error.position])
            else:
                await self._commit_without_guarded(writes, groups[error.position - len(owners)])
            return
        except StoreError as error:
            if len(writes) > 1 and not isinstance(error, StoreUnavailable):
                # One of the writes is invalid. Each is now committed alone, so that the others
                # succeed.
                for write in writes:
                    await self._commit([write])
                return
            for write in writes:
                write.refuse(error)
            return
        results = results[len(checks) :]
        self._count_changes(groups)
        for write in writes:
            write.results.clear()
        for group, rows in zip(groups, results, strict=True):
            group.distribute_rows(rows)
        for write in writes:
            if write.committed is not None:
                write.committed(write.results)
            if not write.done.done():
                write.done.set_result(write.results)

    def _count_changes(self, groups: Iterable["_Group"]) -> None:
        for group in groups:
            sql = group.sql if isinstance(group.sql, str) else group.sql.table
            for table in self._changes:
                if table in sql:
                    self._changes[table] += 1

    def _ownership_check(self, owner: Ownership) -> Bound:
        """Return the statement that finds the row of an ownership. On PostgreSQL the row is locked
        until the commit: so the owner cannot change between this check and the commit."""
        lock = " FOR SHARE" if self.dialect == "postgres" else ""
        sql, values = owner_query(owner)
        return f"{sql}{lock}", values

    async def _commit_without_lost(self, writes: list[_Write], lost: Ownership) -> None:
        """Refuse the writes of a lost ownership, and commit the others."""
        text = f"another process owns partition {lost.partition} now (epoch {lost.epoch} is over)"
        for write in writes:
            if write.owner == lost:
                write.refuse(OwnershipLost(text))
        await self._commit_rest(write for write in writes if write.owner != lost)

    async def _commit_without_guarded(self, writes: list[_Write], group: "_Group") -> None:
        """Refuse the write whose guard failed, and commit the others."""
        if group.guarded is not None:
            group.guarded.refuse(GuardFailed("another writer has changed the rows meanwhile"))
        await self._commit_rest(write for write in writes if write is not group.guarded)

    async def _commit_rest(self, writes: Iterable[_Write]) -> None:
        if rest := [*writes]:
            await self._commit(rest)

    def _clean(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        if not self._no_nul:
            for value in values:
                if isinstance(value, str) and not value.isascii():
                    break
            else:
                return values
        return tuple(_storable(v, self._no_nul) if isinstance(v, str) else v for v in values)


@dataclass(slots=True, eq=False)
class _Group:
    """One statement. It belongs to one write, or it merges the inserts of consecutive writes into
    one table. ``guarded`` is the write of which the statement is a guard, and ``rows`` is the
    number of rows that the guard must return."""

    sql: str | InsertStatement
    members: list[tuple[_Write, tuple[Value, ...]]]
    guarded: _Write | None = None
    rows: int = 0

    @property
    def bound(self) -> Bound:
        if isinstance(self.sql, str):
            return self.sql, self.members[0][1]
        return self.sql.sql(len(self.members)), tuple(v for _, row in self.members for v in row)

    def distribute_rows(self, rows: Rows) -> None:
        """Add each row to the results of its write."""
        if self.guarded is not None:
            return
        if isinstance(self.sql, str):
            self.members[0][0].results.append(rows)
            return
        column = self.sql.columns[0]
        taken = {row[column]: row for row in rows}
        for write, values in self.members:
            first = values[0]
            row = taken.get(final_seq(first) if isinstance(first, int) else first)
            write.results.append([row] if row is not None else [])


def owner_query(owner: Ownership) -> Bound:
    """Return the query that finds the row of an ownership if it is valid."""
    sql = "SELECT epoch FROM partition_owners WHERE partition = ? AND epoch = ?"
    if not owner.token:
        return sql, (owner.partition, owner.epoch)
    # An older version of the bot does not write the token. If it has taken the partition last, the
    # token that is stored is of an earlier epoch, and is not compared.
    return (
        f"{sql} AND worker <> '' AND (token = ? OR token NOT LIKE ?)",
        (owner.partition, owner.epoch, owner.token, f"{owner.epoch}.%"),
    )


def _mark_retrieved(done: "asyncio.Future[list[Rows]]") -> None:
    """Tell asyncio that somebody has seen the exception. Otherwise asyncio logs the exception if
    the caller was cancelled."""
    if not done.cancelled():
        done.exception()


def _grouped(writes: Sequence[_Write]) -> list[_Group]:
    """Return the statements of the writes, in order. Consecutive inserts into one table are
    merged."""
    groups: list[_Group] = []
    for write in writes:
        for (sql, values), rows in write.guards:
            groups.append(_Group(sql, [(write, values)], guarded=write, rows=rows))
        for statement, values in write.statements:
            if groups and isinstance(statement, InsertStatement) and groups[-1].sql is statement:
                groups[-1].members.append((write, values))
            else:
                groups.append(_Group(statement, [(write, values)]))
    return groups


def _storable(text: str, no_nul: bool) -> str:
    """Return the text with U+FFFD in place of lone surrogates. With ``no_nul``, U+FFFD also
    replaces NUL, which PostgreSQL cannot store."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if no_nul else text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd") if no_nul else text


__all__ = [
    "Database",
    "InsertStatement",
    "Row",
    "Rows",
    "SqlStatement",
    "Value",
    "WriteGuard",
    "upsert",
]
