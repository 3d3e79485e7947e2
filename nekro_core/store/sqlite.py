"""Implements the database engine for SQLite. It has one connection, which runs in a thread of its
own. For each commit, the engine makes a single call into this thread."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

import aiosqlite
import anyio
from anyio import to_thread

from nekro_core.store.engine import (
    NOTHING_REQUIRED,
    Bound,
    Required,
    Rows,
    Value,
    check_rows,
    explain,
)
from nekro_core.store.errors import StoreError, StoreUnavailable, UniqueConflict
from nekro_core.store.guest_queries import GuestQuery
from nekro_core.store.guest_sqlite import select_in_file
from nekro_core.store.upgrade import new_tables

IN_MEMORY = ":memory:"


class SqliteEngine:
    """Reads and commits on one connection. Use `SqliteEngine.open` to make an engine."""

    dialect = "sqlite"
    takes_nul = True
    shared = False

    def __init__(self, connection: aiosqlite.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._turn = anyio.Lock()
        """Each call holds this lock. If a call is cancelled while it waits for the lock, it never
        reaches the thread."""

    @classmethod
    @asynccontextmanager
    async def open(cls, path: str, pragmas: Mapping[str, object]) -> AsyncIterator[Self]:
        """Open a file whose tables are up to date, or a new database `IN_MEMORY`. The connection is
        closed at the end of the block. Raises `StoreUnavailable`."""
        with _Translated():
            connection = await aiosqlite.connect(path, isolation_level=None)
        try:
            with _Translated():
                connection.row_factory = sqlite3.Row
                for name, value in pragmas.items():
                    await connection.execute_fetchall(f"PRAGMA {name}={value}")
                if path == IN_MEMORY:
                    await connection.executescript(new_tables(datetime.now(UTC)))
            yield cls(connection, path)
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()

    async def read(self, sql: str, values: Sequence[Value]) -> Rows:
        """See `DatabaseEngine.read`."""
        with _Translated():
            await self._begin_call()
            try:
                # The rows are `sqlite3.Row`, which reads like a mapping but is not typed as one.
                rows: Any = await self._connection.execute_fetchall(sql, values)
                return [*rows]
            finally:
                self._turn.release()

    async def guest_select(self, query: GuestQuery) -> Rows:
        """See `DatabaseEngine.guest_select`."""
        with _Translated():
            return await to_thread.run_sync(select_in_file, self._path, query)

    async def commit(
        self, statements: Sequence[Bound], required: Required = NOTHING_REQUIRED
    ) -> list[Rows]:
        """See `DatabaseEngine.commit`."""
        with _Translated():
            if len(statements) == 1 and not required:
                # A single statement does not need an explicit transaction.
                ((sql, values),) = statements
                return [await self.read(sql, values)]
            # All statements go into the connection's thread in one call, because a call for each
            # statement would take longer.
            await self._begin_call()
            try:
                work = partial(_transact, statements, required)
                return await _in_thread(self._connection, work)
            finally:
                self._turn.release()

    async def _begin_call(self) -> None:
        """Get the lock. If it is free, this does not wait: waiting would let all other tasks run
        before each query."""
        try:
            self._turn.acquire_nowait()
        except anyio.WouldBlock:
            await self._turn.acquire()

    async def listen(self, _told: Callable[[str], None], _begun: Callable[[], None], /) -> None:
        """See `DatabaseEngine.listen`."""
        raise StoreUnavailable("a SQLite file tells nobody of changes: one process uses it")

    async def newest_seq(self, table: str) -> int:
        """See `DatabaseEngine.newest_seq`."""
        rows = await self.read("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        return max((row["seq"] for row in rows), default=0)

    async def vacuum(self, *, anew: bool) -> None:
        """See `DatabaseEngine.vacuum`. SQLite itself overwrites deleted data (``secure_delete``).
        With ``anew``, the whole file is rewritten, which removes deleted data that earlier versions
        of the bot left. That takes 1 s of processor time for each 150 MB, and all reads and writes
        wait meanwhile. In both cases the write-ahead log is emptied."""
        if anew:
            await self.read("VACUUM", ())
        await self.read("PRAGMA wal_checkpoint(TRUNCATE)", ())


def _transact(
    statements: Sequence[Bound], required: Required, connection: sqlite3.Connection
) -> list[Rows]:
    """Run all statements in one transaction. If one fails, none is carried out. The transaction is
    ended in both cases."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        results: list[Rows] = [connection.execute(*each).fetchall() for each in statements]
        for position in required:
            check_rows(required, position, results[position])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return results


async def _in_thread(
    connection: aiosqlite.Connection, work: Callable[[sqlite3.Connection], list[Rows]]
) -> list[Rows]:
    """Run a function in the connection's thread, as aiosqlite's own methods do."""
    execute: Callable[..., Awaitable[list[Rows]]] = connection._execute  # noqa: SLF001 (no public name)
    return await execute(work, connection._conn)  # noqa: SLF001


class _Translated:
    """Converts the drivers' errors into `StoreError` and its subclasses."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        match error:
            case sqlite3.IntegrityError():
                raise UniqueConflict(f"a unique key is taken already: {error}") from error
            case sqlite3.ProgrammingError() | sqlite3.InterfaceError() | ValueError():
                # A ValueError has one of two causes: a text cannot be encoded (UnicodeEncodeError),
                # or the connection is closed (then aiosqlite raises a ValueError).
                raise StoreError(f"the database refused a value: {error}") from error
            case OverflowError():
                raise StoreError(f"the database refused a value: {error}") from error
            case sqlite3.Error() | OSError():
                raise StoreUnavailable(explain(str(error))) from error
