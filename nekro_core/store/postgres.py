"""Implements the database engine for PostgreSQL. A pool of connections reads, and one connection
writes.

The writing connection holds an advisory lock of the database. A process that loses this connection
loses the lock and can no longer write. So two bots never write to the same database, even if the
network fails. See docs/decisions/0022-postgresql.md.

The processes of a cluster are *nodes*. All nodes hold the lock of the database together, in shared
mode, and each node holds another lock on its own name. So if a cluster uses the database, a bot
that runs alone is refused, and the other way round. A node is also refused if another node has the
same name. See docs/decisions/0054-several-processes-on-one-database.md.

The library Tortoise ORM only creates the tables. It does not run the other statements, because its
PostgreSQL client discards the rows of an ``INSERT ... RETURNING``.
"""

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, cast

import anyio
import asyncpg
from loguru import logger

from nekro_core.store.changes import CHANNEL, NODE_LOCK
from nekro_core.store.engine import (
    NOTHING_REQUIRED,
    Bound,
    Required,
    Rows,
    Value,
    WrongRowCount,
    check_rows,
    explain,
)
from nekro_core.store.errors import DatabaseInUse, StoreError, StoreUnavailable, UniqueConflict
from nekro_core.store.guest_postgres import select_on_server
from nekro_core.store.guest_queries import GuestQuery
from nekro_core.store.pending_seq import PendingSeq, final_seq

Connection = Any
"""A connection of asyncpg, which has no types."""


class PostgresTransaction:
    """Runs statements in one transaction. Its last statement writes a random mark into the table
    `commit_marks`. If the connection is lost before the server has confirmed the commit, the next
    connection looks for this mark, and so knows whether the transaction was committed.

    The number that the server gave the transaction would not do: a server that crashes can forget
    the number, and give it to a transaction of another process, which is committed then.

    Where the database has no such table, or the statements drop it, ``marked`` is false. Then a
    commit that was not confirmed is an error.

    A `PendingSeq` in the values is a placeholder for the number of a record. It gets its final
    number in this transaction.
    """

    def __init__(
        self, node: str, statements: Sequence[Bound], required: Required = NOTHING_REQUIRED
    ) -> None:
        self._node = node
        self.marked = True
        self._statements = statements
        self._required = required
        self._pending = {
            value: 0
            for _, values in statements
            for value in values
            if isinstance(value, PendingSeq) and not value.number
        }
        self._has_placeholders = any(
            isinstance(value, PendingSeq) for _, values in statements for value in values
        )
        self._mark = random.getrandbits(_MARK_BITS)
        self._changed = True
        self.rows: list[Rows] | None = None
        """The rows of each statement; None until the commit begins."""

    async def run(self, connection: Connection) -> list[Rows]:
        """Run and commit the statements. Raises the errors of asyncpg, and `WrongRowCount`. If the
        connection is lost after `rows` was set, it is unknown whether the commit succeeded."""
        rows: list[Rows] = []
        async with connection.transaction():
            if self._pending:
                await self._give_numbers(connection)
            for position, (sql, values) in enumerate(self._statements):
                bound = self._final(values) if self._has_placeholders else values
                found = await connection.fetch(numbered_placeholders(sql), *bound)
                check_rows(self._required, position, found)
                rows.append(cast(Rows, found))
            if self.marked:
                self._changed = bool(await connection.fetch(_WRITE_MARK, self._node, self._mark))
            self.rows = rows
        return rows

    def keep_numbers(self) -> None:
        """Store the final numbers in the placeholders. Call this when the transaction is known to
        be committed."""
        for placeholder, number in self._pending.items():
            placeholder.number = number

    async def _give_numbers(self, connection: Connection) -> None:
        """Get a number for each placeholder. From here to the commit, no other process can number
        records. So the numbers are in the order of the commits: when a reader sees a record, no
        record with a lower number appears later."""
        found = await connection.fetch(_NEXT_NUMBERS, len(self._pending))
        numbers = sorted(row["seq"] for row in found)
        self._pending = dict(zip(self._pending, numbers, strict=True))

    def _final(self, values: Sequence[Value]) -> list[Value]:
        return [
            self._pending.get(value) or final_seq(value) if isinstance(value, PendingSeq) else value
            for value in values
        ]

    async def was_committed(self, connection: Connection) -> bool:
        """Return whether the transaction was committed. Call this with a new connection, after the
        server has ended the session of the lost connection, so that the transaction is no longer in
        progress. Raises the errors of asyncpg, and `StoreUnavailable` if this cannot be known."""
        if not self._changed:
            return True
        if not self.marked:
            raise StoreUnavailable("the connection was lost, and the changes may have been stored")
        return bool(await connection.fetchval(_READ_MARK, self._node) == self._mark)


def numbered_placeholders(sql: str) -> str:
    """Return the SQL with PostgreSQL's ``$1``, ``$2`` in place of each ``?``."""
    head, *rest = sql.split("?")
    return head + "".join(f"${number}{text}" for number, text in enumerate(rest, 1))


_MARK_BITS = 63
"""Number of random bits of a mark: a positive number of the type ``bigint``."""
_WRITE_MARK = (
    "INSERT INTO commit_marks (node, mark) SELECT $1::varchar, $2::bigint "
    "WHERE txid_current_if_assigned() IS NOT NULL "
    "ON CONFLICT (node) DO UPDATE SET mark = excluded.mark RETURNING mark"
)
"""Writes the mark of a transaction. A transaction that has changed nothing writes none, because a
commit that writes has to wait for the disk."""
_HAS_MARKS = "SELECT to_regclass('commit_marks') IS NOT NULL"
_READ_MARK = "SELECT mark FROM commit_marks WHERE node = $1"
_NUMBERING = 0x6E656B6E
"""The first half of the key of the advisory lock that a transaction holds while it numbers records:
"nekn" in ASCII."""
_NEXT_NUMBERS = (
    "WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock"
    f"({_NUMBERING}, hashtext(current_schema()))) "
    "SELECT nextval('messages_seq_seq') AS seq FROM held, generate_series(1, $1::int)"
)
_MIGRATING = 0x6E656B6D
"""The first half of the key of the advisory lock that the migrating process holds: "nekm"."""
_NODE_KEY = "hashtextextended('nekro-core ' || current_schema() || ' ' || $1, 0)"
"""The key of the advisory lock on the name of a node."""
_STALLED_S = 2.0
"""If a node does nothing in the middle of a transaction for this many seconds, the server ends its
connection. Without this limit, a process that does not run any more (SIGSTOP, a frozen machine)
would keep its row locks and the lock of the numbering, and no process could store messages. The
limit is short, because a chat must be served again within 5 s after its owner stopped."""
_CONFLICTS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""Errors of a transaction that the server has rolled back because of another process. The
transaction is repeated."""
_MOST_CONFLICTS = 5
_PING_S = 15.0
"""Seconds between two queries on the listening connection, which test whether the server still
answers. Otherwise nothing would be sent on this connection, and its loss would not be noticed."""

_COMMAND_S = 30.0
"""Time-out of one statement, in seconds. Without it, a statement would wait for ever if the server
disappeared without closing the connection."""

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

    def __init__(
        self, credentials: Mapping[str, Any], *, patience_s: float, node: str = ""
    ) -> None:
        self._options = {k: credentials[k] for k in _DRIVER_OPTIONS if k in credentials}
        self._node = node
        name = f"nekro-core {node}".rstrip()
        self._settings = {
            "application_name": f"{name}, process {os.getpid()} on {socket.gethostname()}"[:63],
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
        self._has_marks = False
        """Whether the database is known to have the table `commit_marks`."""
        self._pool: Any = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, credentials: Mapping[str, Any], *, patience_s: float, node: str = ""
    ) -> AsyncIterator[Self]:
        """Connect and take the lock. ``patience_s`` is the maximum wait in seconds for a server
        that is starting, for the lock of a process that is ending, and for a locked table.
        ``node`` is the name of this process among those that share the database. Without it, this
        process has the database for itself.

        Raises `DatabaseInUse` and `StoreUnavailable`.
        """
        engine = cls(credentials, patience_s=patience_s, node=node)
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

    @property
    def shared(self) -> bool:
        """See `DatabaseEngine.shared`."""
        return bool(self._node)

    async def read(self, sql: str, values: Sequence[Value]) -> Rows:
        """See `DatabaseEngine.read`."""
        if self._node:
            values = [final_seq(each) if isinstance(each, int) else each for each in values]
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

    async def commit(
        self, statements: Sequence[Bound], required: Required = NOTHING_REQUIRED
    ) -> list[Rows]:
        """See `DatabaseEngine.commit`. If the connection is lost during a commit, the next
        connection asks the server whether the transaction was committed. If the transaction was not
        committed, or if a stopping server refused the statements, the statements are run once more.
        If the server rolled the transaction back because of a conflict with another process, the
        transaction is repeated."""
        for attempt in range(_MOST_CONFLICTS):
            try:
                return await self._commit_once(statements, required)
            except _CONFLICTS as error:
                if attempt == _MOST_CONFLICTS - 1:
                    raise _translated(error) from error
        raise AssertionError("unreachable")

    async def _commit_once(self, statements: Sequence[Bound], required: Required) -> list[Rows]:
        for last in (False, True):
            connection = await self._connected()
            transaction = PostgresTransaction(self._node, statements, required)
            try:
                transaction.marked = await self._can_mark(connection, statements)
                rows = await transaction.run(connection)
            except (WrongRowCount, *_CONFLICTS):
                raise
            except Exception as error:
                begins_anew = isinstance(error, _STOPPING)
                if (
                    not begins_anew
                    and not connection.is_closed()
                    and not isinstance(error, TimeoutError)
                ):
                    raise _translated(error) from error
                # The server ends the connection of a node that stopped in a transaction. Nothing
                # was committed, so the statements can be tried again.
                begins_anew = begins_anew or (bool(self._node) and connection.is_closed())
                self._drop()
                if transaction.rows is not None:
                    if await self._was_committed(transaction):
                        transaction.keep_numbers()
                        return transaction.rows
                elif not begins_anew:
                    raise _translated(error) from error
                if last:
                    raise _translated(error) from error
            except BaseException:
                # The call was cancelled halfway, so the state of the connection is unknown.
                self._drop()
                raise
            else:
                transaction.keep_numbers()
                return rows
        raise AssertionError("unreachable")

    async def listen(self, told: Callable[[str], None], begun: Callable[[], None], /) -> None:
        """See `DatabaseEngine.listen`."""
        gone = asyncio.Event()
        try:
            connection = await asyncpg.connect(**self._arguments())
        except Exception as error:
            raise _translated(error) from error
        try:
            channel = await connection.fetchval(f"SELECT {CHANNEL}")
            connection.add_termination_listener(lambda _: gone.set())
            await connection.add_listener(channel, lambda *call: told(str(call[-1])))
            begun()
            while not gone.is_set():
                with anyio.move_on_after(_PING_S):
                    await gone.wait()
                if not gone.is_set():
                    await connection.execute("SELECT 1", timeout=_CONNECT_S)
        except Exception as error:
            raise _translated(error) from error
        finally:
            connection.terminate()

    @asynccontextmanager
    async def migrating(self) -> AsyncIterator[None]:
        """Let only one node at a time run the block, in which the node migrates the tables. A
        process that is no node has the database for itself, and does not wait. Raises
        `StoreUnavailable`."""
        if not self._node:
            yield
            return
        arguments = {**self._arguments(), "command_timeout": _REWRITE_S}
        arguments["server_settings"] = {**self._settings, "lock_timeout": "0"}
        try:
            connection = await asyncpg.connect(**arguments)
        except Exception as error:
            raise _translated(error) from error
        try:
            try:
                key = f"{_MIGRATING}, hashtext(current_schema())"
                await connection.execute(f"SELECT pg_advisory_lock({key})")
            except Exception as error:
                raise _translated(error) from error
            yield
        finally:
            connection.terminate()

    async def require_no_others(self, migration: str) -> None:
        """Check that no other node uses the database, because it could not work with the tables
        after ``migration``. Nodes that wait to migrate do not count: they find the new tables. A
        node that is ending gets the time of ``patience_s``. Raises `DatabaseInUse` and
        `StoreUnavailable`."""
        until = anyio.current_time() + self._patience_s
        while True:
            connection = await self._connected()
            try:
                holder = await connection.fetchrow(_OTHER_NODE, connection.get_server_pid())
            except Exception as error:
                raise _translated(error) from error
            if holder is None:
                return
            if anyio.current_time() >= until:
                raise DatabaseInUse(
                    f"the database must be brought to {migration}, and {_words(holder)} could not "
                    "work with it. End all processes of the version before, then start this one"
                )
            await anyio.sleep(_AGAIN_S)

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
        table. Without ``anew``, nothing is done."""
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

    async def _can_mark(self, connection: Connection, statements: Sequence[Bound]) -> bool:
        """Return whether a transaction with these statements can write its mark."""
        if any(sql.startswith("DROP TABLE") for sql, _ in statements):
            self._has_marks = False
        elif not self._has_marks:
            self._has_marks = await connection.fetchval(_HAS_MARKS)
        return self._has_marks

    async def _was_committed(self, transaction: PostgresTransaction) -> bool:
        """Ask the server on a new connection whether the transaction was committed. The new
        connection holds the lock (for a node, the lock on its name), so the session of the lost
        connection has ended. If the new connection is lost too, ask on the next one."""
        until = anyio.current_time() + self._patience_s
        while True:
            connection = await self._connected()
            try:
                return await transaction.was_committed(connection)
            except Exception as error:
                if not connection.is_closed() or anyio.current_time() >= until:
                    raise _translated(error) from error
            await anyio.sleep(_AGAIN_S)

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
        arguments = self._arguments()
        if self._node:
            stalled = {"idle_in_transaction_session_timeout": str(int(_STALLED_S * 1000))}
            arguments["server_settings"] = {**self._settings, **stalled}
        connection = await asyncpg.connect(**arguments)
        try:
            kind = "_shared" if self._node else ""
            key = f"{NODE_LOCK}, hashtext(current_schema())"
            if not await connection.fetchval(f"SELECT pg_try_advisory_lock{kind}({key})"):
                holder, refusal = await connection.fetchrow(_HOLDER), self._refusal
            elif self._node and not await connection.fetchval(
                f"SELECT pg_try_advisory_lock({_NODE_KEY})", self._node
            ):
                holder = await connection.fetchrow(_HOLDER_OF_NAME, self._node)
                refusal = self._refusal_of_name
            else:
                return connection
        except BaseException:
            connection.terminate()
            raise
        await connection.close(timeout=_CONNECT_S)
        raise DatabaseInUse(refusal(_words(holder)))

    def _refusal(self, holder: str) -> str:
        if self._node:
            return (
                f"the database is in use by {holder}, which runs alone. End that bot before you "
                "start a cluster, or name another database in NEKRO_DATABASE_URL."
            )
        return (
            f"the database is in use by {holder}. "
            "End that bot, or name another database in NEKRO_DATABASE_URL."
        )

    def _refusal_of_name(self, holder: str) -> str:
        return (
            f"the name {self._node!r} is in use by {holder}. "
            "End that process, or give this one another name."
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


_HOLDERS = (
    "SELECT application_name, host(client_addr) AS address, backend_start "
    "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND granted "
)
_HOLDER = (
    f"{_HOLDERS} AND classid = {NODE_LOCK} AND objsubid = 2 "
    "AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid LIMIT 1"
)
_OTHER_NODE = (
    f"{_HOLDERS} AND classid = {NODE_LOCK} AND objsubid = 2 "
    "AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid AND pid <> $1 "
    "AND application_name NOT IN (SELECT application_name FROM pg_locks "
    "JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND NOT granted AND classid = {_MIGRATING}) LIMIT 1"
)
"""Finds another node that holds the lock of the database and does not wait for its turn to migrate.
A node waits on a connection of its own, which has the same name as its others."""
_HOLDER_OF_NAME = (
    f"{_HOLDERS} AND objsubid = 1 "
    f"AND ((classid::bigint << 32) | objid::bigint) = {_NODE_KEY} LIMIT 1"
)
"""Finds the process that holds the lock on the name of a node. PostgreSQL's list of locks shows the
key of the lock as two halves of 32 bits."""


async def _nothing_to_reset(connection: Connection) -> None:
    """Do nothing when a connection goes back to the pool, because a read leaves no state in it. By
    default, asyncpg sends a statement that resets the connection after each read."""


_STOPPING = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
"""Errors with which a server ends a connection: because the server stops, or because a node did
nothing in a transaction for too long. After such an error, the transaction is rolled back."""


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
