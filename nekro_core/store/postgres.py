"""Implements the database engine for PostgreSQL. A pool of connections reads, and one connection
writes.

The writing connection holds an advisory lock of the database. A process that loses this connection
loses the lock and can no longer write. So two bots never write to the same database, even if the
network fails. See docs/decisions/0022-postgresql.md.

Tortoise only creates the tables. It does not run the other statements, because its PostgreSQL
client discards the rows of an ``INSERT ... RETURNING``.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, cast

import anyio
import asyncpg
from loguru import logger

from nekro_core.store.engine import Bound, Rows, Value, explain
from nekro_core.store.errors import DatabaseInUse, StoreError, StoreUnavailable, UniqueConflict
from nekro_core.store.guest_postgres import select_on_server
from nekro_core.store.guest_queries import GuestQuery

Connection = Any
"""A connection of asyncpg, which has no types."""


class PostgresTransaction:
    """Runs statements in one transaction. The transaction's number is read before the commit. If
    the connection is lost before the server has confirmed the commit, the next connection asks the
    server by this number whether the transaction was committed."""

    def __init__(self, statements: Sequence[Bound]) -> None:
        self._statements = statements
        self._number: int | None = None
        self.rows: list[Rows] | None = None
        """The rows of each statement; None until the commit begins."""

    async def run(self, connection: Connection) -> list[Rows]:
        """Run and commit the statements. Raises the errors of asyncpg. If the connection is lost
        after `rows` was set, it is unknown whether the commit succeeded."""
        async with connection.transaction():
            rows = [
                cast(Rows, await connection.fetch(numbered_placeholders(sql), *values))
                for sql, values in self._statements
            ]
            self._number = await connection.fetchval("SELECT txid_current_if_assigned()")
            self.rows = rows
        return rows

    async def was_committed(self, connection: Connection) -> bool:
        """Return whether the transaction was committed. Call this with a new connection, after the
        server has ended the session of the lost connection, so that the transaction is no longer in
        progress. Raises the errors of asyncpg."""
        if self._number is None:
            return True  # The transaction changed nothing.
        try:
            status = await connection.fetchval("SELECT txid_status($1)", self._number)
        except asyncpg.InvalidParameterValueError:
            # The server has crashed and lost the number and the transaction.
            return False
        return bool(status == "committed")


def numbered_placeholders(sql: str) -> str:
    """Return the SQL with PostgreSQL's ``$1``, ``$2`` in place of each ``?``."""
    head, *rest = sql.split("?")
    return head + "".join(f"${number}{text}" for number, text in enumerate(rest, 1))


_MARK = 0x6E656B72
"""The first half of the advisory lock's key: "nekr" in ASCII. The second half is a hash of the
schema's name."""

_COMMAND_S = 30.0
"""Time-out of one statement, in seconds. Without it a statement would wait for ever if the server
were gone and the connection did not notice."""

_REWRITE_S = 600.0
"""Time-out of writing one table anew, in seconds. For comparison: on a small machine, SQLite writes
150 MB in a second."""
_OWN_TABLES = (
    "SELECT quote_ident(tablename) AS name FROM pg_tables "
    "WHERE schemaname = current_schema() AND tableowner = current_user ORDER BY tablename"
)

_CONNECT_S = 10.0
_AGAIN_S = 0.1
_READERS = 4
_DRIVER_OPTIONS = ("host", "port", "user", "password", "database", "ssl", "statement_cache_size")
_NEVER = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
)
"""Errors of a connection attempt after which the bot does not try again, because waiting would not
help."""


class PostgresEngine:
    """Reads and commits on one server. Use `PostgresEngine.open`."""

    dialect = "postgres"
    takes_nul = False

    def __init__(self, credentials: Mapping[str, Any], *, patience_s: float) -> None:
        self._options = {k: credentials[k] for k in _DRIVER_OPTIONS if k in credentials}
        self._settings = {
            "application_name": f"nekro-core, process {os.getpid()} on {socket.gethostname()}"[:63],
            # With keepalives, the server notices when the bot's machine has died, and then releases
            # the bot's lock.
            "tcp_keepalives_idle": "30",
            "tcp_keepalives_interval": "10",
            "tcp_keepalives_count": "3",
            "lock_timeout": str(int(patience_s * 1000)),
        }
        if schema := credentials.get("schema"):
            self._settings["search_path"] = str(schema)
        self._patience_s = patience_s
        self._patient = True
        self._writer: Connection | None = None
        self._pool: Any = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, credentials: Mapping[str, Any], *, patience_s: float
    ) -> AsyncIterator[Self]:
        """Connect and take the lock. ``patience_s`` is the maximum wait in seconds for a server
        that is starting, for the lock of a process that is ending, and for a locked table.

        Raises `DatabaseInUse` and `StoreUnavailable`.
        """
        engine = cls(credentials, patience_s=patience_s)
        try:
            await engine._connected()
            try:
                # The pool opens a connection only when a read needs it, and then keeps the
                # connection open. A pool with a minimum size would try again and again to reach a
                # server that is down.
                engine._pool = await asyncpg.create_pool(
                    min_size=0,
                    max_size=_READERS,
                    max_inactive_connection_lifetime=0,
                    reset=_nothing_to_reset,
                    **engine._arguments(),
                )
            except (asyncpg.PostgresError, OSError, TimeoutError) as error:
                raise StoreUnavailable(explain(_error_text(error))) from error
            yield engine
        finally:
            await engine._close()

    async def read(self, sql: str, values: Sequence[Value]) -> Rows:
        """See `DatabaseEngine.read`."""
        try:
            return cast(Rows, await self._pool.fetch(numbered_placeholders(sql), *values))
        except Exception as error:
            raise _translated(error) from error

    async def guest_select(self, query: GuestQuery) -> Rows:
        """See `DatabaseEngine.guest_select`."""
        try:
            async with self._pool.acquire() as connection:
                return await select_on_server(connection, query)
        except Exception as error:
            raise _translated(error) from error

    async def commit(self, statements: Sequence[Bound]) -> list[Rows]:
        """See `DatabaseEngine.commit`. If the connection is lost during a commit, the next
        connection asks the server whether the transaction was committed. If the transaction was not
        committed, or if a stopping server refused the statements, they are tried once more."""
        for last in (False, True):
            connection = await self._connected()
            transaction = PostgresTransaction(statements)
            try:
                return await transaction.run(connection)
            except Exception as error:
                stopping = isinstance(error, _STOPPING)
                if (
                    not stopping
                    and not connection.is_closed()
                    and not isinstance(error, TimeoutError)
                ):
                    raise _translated(error) from error
                self._drop()
                if transaction.rows is not None:
                    if await self._was_committed(transaction):
                        return transaction.rows
                elif not stopping:
                    raise _translated(error) from error
                if last:
                    raise _translated(error) from error
            except BaseException:
                # The call was cancelled halfway, so the state of the connection is unknown.
                self._drop()
                raise
        raise AssertionError("unreachable")

    async def newest_seq(self, table: str) -> int:
        """See `DatabaseEngine.newest_seq`."""
        last = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seq"
        (row,) = await self.read(f"{last} FROM {table}_seq_seq", ())
        return int(row["seq"])

    async def vacuum(self, *, anew: bool) -> None:
        """See `DatabaseEngine.vacuum`. A plain ``VACUUM`` leaves the bytes of deleted rows in the
        server's files until other rows take their place. So each table and its indexes are written
        anew. Meanwhile, reads and writes of that table wait. If another program locks a table for
        longer than the bot waits, the table only gets a plain ``VACUUM``, and the log names the
        table."""
        if not anew:
            return
        arguments = {**self._arguments(), "command_timeout": _REWRITE_S}
        try:
            connection = await asyncpg.connect(**arguments)
        except Exception as error:
            raise _translated(error) from error
        try:
            for row in await connection.fetch(_OWN_TABLES):
                try:
                    await connection.execute(f"VACUUM FULL {row['name']}")
                except asyncpg.LockNotAvailableError:
                    logger.warning(
                        "erasing: the table {} is held by another program: its deleted rows stay "
                        "in the server's files until other rows take their place",
                        row["name"],
                    )
                    await connection.execute(f"VACUUM {row['name']}")
        except Exception as error:
            raise _translated(error) from error
        finally:
            connection.terminate()

    async def _was_committed(self, transaction: PostgresTransaction) -> bool:
        """Ask the server on a new connection whether the transaction was committed. The new
        connection holds the lock, so the session of the lost connection has ended."""
        connection = await self._connected()
        try:
            return await transaction.was_committed(connection)
        except Exception as error:
            raise _translated(error) from error

    async def _connected(self) -> Connection:
        """Return the writing connection, which holds the lock. If the connection was lost, open
        another."""
        if self._writer is not None and not self._writer.is_closed():
            return self._writer
        self._drop()
        # If connecting fails during the whole wait, each later write tries to connect only once,
        # until one of them succeeds.
        until = anyio.current_time() + (self._patience_s if self._patient else 0.0)
        while True:
            try:
                self._writer = await self._owner()
            except _NEVER as error:
                raise StoreUnavailable(explain(_error_text(error))) from error
            except (asyncpg.PostgresError, OSError, TimeoutError) as error:
                if anyio.current_time() >= until:
                    self._patient = False
                    raise StoreUnavailable(explain(_error_text(error))) from error
            except DatabaseInUse:
                if anyio.current_time() >= until:
                    self._patient = False
                    raise
            else:
                self._patient = True
                return self._writer
            await anyio.sleep(_AGAIN_S)

    async def _owner(self) -> Connection:
        connection = await asyncpg.connect(**self._arguments())
        try:
            key = f"{_MARK}, hashtext(current_schema())"
            if await connection.fetchval(f"SELECT pg_try_advisory_lock({key})"):
                return connection
            holder = await connection.fetchrow(
                "SELECT application_name, host(client_addr) AS address, backend_start "
                "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                f"AND classid = {_MARK} AND granted LIMIT 1"
            )
        except BaseException:
            connection.terminate()
            raise
        await connection.close(timeout=_CONNECT_S)
        raise DatabaseInUse(
            f"the database is in use by {_words(holder)}. "
            "End that bot, or name another database in NEKRO_DATABASE_URL."
        )

    def _arguments(self) -> dict[str, Any]:
        return {
            **self._options,
            "timeout": _CONNECT_S,
            "command_timeout": _COMMAND_S,
            "server_settings": self._settings,
        }

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            if self._pool is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._pool.close(), _CONNECT_S)
                self._pool.terminate()
            if self._writer is not None:
                with suppress(asyncpg.PostgresError, OSError, TimeoutError):
                    await self._writer.close(timeout=_CONNECT_S)
                self._drop()


async def _nothing_to_reset(connection: Connection) -> None:
    """Do nothing, since a read leaves no state in the connection. By default asyncpg sends a reset
    statement after each read."""


_STOPPING = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)
"""Errors of a stopping server. They mean that the statement did not run."""


def _translated(error: Exception) -> StoreError:
    match error:
        case asyncpg.IntegrityConstraintViolationError():
            return UniqueConflict(f"a unique key is taken already: {error}")
        case asyncpg.DataError() | ValueError() | OverflowError() | TypeError():
            return StoreError(f"the database refused a value: {error}")
        case StoreError():
            return error
        case _:
            return StoreUnavailable(explain(_error_text(error)))


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _words(holder: Mapping[str, Any] | None) -> str:
    if holder is None or not holder["application_name"]:
        return "another process"
    since = holder["backend_start"].astimezone()
    return (
        f"{holder['application_name']} (from {holder['address'] or 'this machine'}, "
        f"since {since:%Y-%m-%d %H:%M:%S})"
    )
