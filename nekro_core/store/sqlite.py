"""Implements the engine for SQLite. It has one connection, and makes one call into the connection's
thread for each commit."""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import aiosqlite
from anyio import to_thread
from tortoise.backends.base.client import BaseDBAsyncClient
from tortoise.exceptions import BaseORMException, IntegrityError

from nekro_core.store.engine import Bound, Rows, Value, explain
from nekro_core.store.errors import StoreError, StoreUnavailable, UniqueConflict
from nekro_core.store.guest_queries import GuestQuery
from nekro_core.store.guest_sqlite import select_in_file


class SqliteEngine:
    """Reads and commits on Tortoise's connection."""

    dialect = "sqlite"
    takes_nul = True

    def __init__(self, connection: BaseDBAsyncClient) -> None:
        self._connection = connection

    async def read(self, sql: str, values: Sequence[Value]) -> Rows:
        """See `DatabaseEngine.read`."""
        with _Translated():
            _, rows = await self._connection.execute_query(sql, list(values))
            return rows

    async def guest_select(self, query: GuestQuery) -> Rows:
        """See `DatabaseEngine.guest_select`."""
        with _Translated():
            path = str(getattr(self._connection, "filename", ":memory:"))
            return await to_thread.run_sync(select_in_file, path, query)

    async def commit(self, statements: Sequence[Bound]) -> list[Rows]:
        """See `DatabaseEngine.commit`."""
        with _Translated():
            if len(statements) == 1:
                # A single statement needs no explicit transaction.
                ((sql, values),) = statements
                _, rows = await self._connection.execute_query(sql, list(values))
                return [rows]
            # Make one call into the connection's thread. A transaction of Tortoise would make three
            # more calls, and would first commit a transaction that a failed commit has left open.
            async with self._connection.acquire_connection() as connection:
                return await _in_thread(connection, partial(_transact, statements))

    async def newest_seq(self, table: str) -> int:
        """See `DatabaseEngine.newest_seq`."""
        rows = await self.read("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        return max((row["seq"] for row in rows), default=0)

    async def vacuum(self, *, anew: bool) -> None:
        """See `DatabaseEngine.vacuum`. SQLite overwrites freed pages by itself (``secure_delete``).
        With ``anew``, the whole file is rewritten, which removes deleted data that earlier versions
        of the bot left. That takes 1 s of processor time for each 150 MB, and no other read runs
        meanwhile. In both cases the write-ahead log is emptied."""
        if anew:
            await self.read("VACUUM", ())
        await self.read("PRAGMA wal_checkpoint(TRUNCATE)", ())


def _transact(statements: Sequence[Bound], connection: sqlite3.Connection) -> list[Rows]:
    """Run all statements in one transaction. If one fails, none is carried out. The transaction is
    ended in both cases."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        results: list[Rows] = [connection.execute(*each).fetchall() for each in statements]
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
            case IntegrityError() | sqlite3.IntegrityError():
                raise UniqueConflict(f"a unique key is taken already: {error}") from error
            case sqlite3.ProgrammingError() | sqlite3.InterfaceError() | ValueError():
                # ValueError: a text cannot be encoded (UnicodeEncodeError), or the connection is
                # closed (aiosqlite raises a ValueError).
                raise StoreError(f"the database refused a value: {error}") from error
            case OverflowError():
                raise StoreError(f"the database refused a value: {error}") from error
            case BaseORMException() | sqlite3.Error() | OSError():
                raise StoreUnavailable(explain(str(error))) from error
