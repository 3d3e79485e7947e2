"""One database, one writer.

Reads go straight to Tortoise's connection. Writes are handed to one task that takes all that are
waiting and commits them together: under load a commit is shared by many (SQLite's cost is the
commit, not the row), and alone a write is one statement without a wait. Order of `write` is order
of commit, so what is seen in the database never has a gap that fills up later.

SQL is written with ``?`` and kept to what SQLite and PostgreSQL both understand.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nekro_core.store.engine import Bound, DatabaseEngine, Row, Rows, Value
from nekro_core.store.errors import StoreError, StoreUnavailable


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """An insert whose rows may share a statement. Its first column is unique and is what comes
    back for each row that was taken; a row in conflict with a unique key is passed over."""

    table: str
    columns: tuple[str, ...]

    def sql(self, rows: int) -> str:
        """The statement for so many rows."""
        one = f"({', '.join('?' * len(self.columns))})"
        return (
            f"INSERT INTO {self.table} ({', '.join(self.columns)}) "
            f"VALUES {', '.join([one] * rows)} ON CONFLICT DO NOTHING RETURNING {self.columns[0]}"
        )


class SqlStatement(NamedTuple):
    """SQL with ``?`` where a value goes."""

    sql: str | InsertStatement
    values: tuple[Value, ...] = ()


@dataclass(slots=True, eq=False)
class _Write:
    """Statements that are committed together, and who waits for them. Who waits may be cancelled,
    and ``done`` with it; the write itself is not."""

    statements: tuple[SqlStatement, ...]
    done: "asyncio.Future[list[Rows]]"
    committed: Callable[[list[Rows]], None] | None
    failed: Callable[[], None] | None
    results: list[Rows] = field(default_factory=list)


class Database:
    """Reads and writes on one engine. `keep` must run while it is used."""

    def __init__(self, engine: DatabaseEngine, *, batch: int, queue: int = 20_000) -> None:
        self._engine = engine
        self._no_nul = engine.dialect == "postgres"
        self._batch = batch
        self._queue = queue
        self._waiting: deque[_Write] = deque()
        self._wake = asyncio.Event()
        self._closing = False

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgres``."""
        return self._engine.dialect

    async def read(self, sql: str, *values: Value) -> Rows:
        """Rows of a query. Raises `StoreUnavailable`."""
        return await self._engine.read(sql, self._clean(values))

    def write(
        self,
        *statements: SqlStatement,
        committed: Callable[[list[Rows]], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> Awaitable[list[Rows]]:
        """Put statements in line, to be committed together; their place is taken before this
        returns. Awaiting gives each one's rows and raises `StoreError` where nothing was written.

        ``committed`` is called in the order of commits, before the one who waits goes on, and also
        where nobody waits any more; ``failed`` where nothing was written. They must not raise.
        """
        done: asyncio.Future[list[Rows]] = asyncio.get_running_loop().create_future()
        if len(self._waiting) >= self._queue:
            # A disk that is too slow must not fill the memory: whoever asks is told to wait.
            if failed is not None:
                failed()
            slow = f"{len(self._waiting)} writes wait already: the disk is too slow, or it is held"
            done.set_exception(StoreUnavailable(slow))
        elif self._closing:
            done.set_exception(StoreUnavailable("the store is closed: nothing more is written"))
        else:
            clean = tuple(SqlStatement(sql, self._clean(values)) for sql, values in statements)
            self._waiting.append(_Write(clean, done, committed, failed))
            self._wake.set()
        done.add_done_callback(_mark_retrieved)
        return done

    async def keep(self) -> None:
        """Commit what is handed in until `close`."""
        while self._waiting or not self._closing:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            await self._commit(taken)

    def close(self) -> None:
        """Refuse new writes; `keep` ends when those in line are done."""
        self._closing = True
        self._wake.set()

    async def _commit(self, writes: list[_Write]) -> None:
        groups = _grouped(writes)
        try:
            results = await self._engine.commit([group.bound for group in groups])
        except StoreError as error:
            if len(writes) > 1 and not isinstance(error, StoreUnavailable):
                # One of them is at fault; the others must not pay for it.
                for write in writes:
                    await self._commit([write])
                return
            for write in writes:
                if write.failed is not None:
                    write.failed()
                if not write.done.done():
                    write.done.set_exception(error)
            return
        for write in writes:
            write.results.clear()
        for group, rows in zip(groups, results, strict=True):
            group.distribute_rows(rows)
        for write in writes:
            if write.committed is not None:
                write.committed(write.results)
            if not write.done.done():
                write.done.set_result(write.results)

    def _clean(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(_storable(v, self._no_nul) if isinstance(v, str) else v for v in values)


@dataclass(slots=True, eq=False)
class _Group:
    """One statement for the database, of one write or of neighbouring rows for one table."""

    sql: str | InsertStatement
    members: list[tuple[_Write, tuple[Value, ...]]]

    @property
    def bound(self) -> Bound:
        if isinstance(self.sql, str):
            return self.sql, self.members[0][1]
        return self.sql.sql(len(self.members)), tuple(v for _, row in self.members for v in row)

    def distribute_rows(self, rows: Rows) -> None:
        """Give each write its rows."""
        if isinstance(self.sql, str):
            self.members[0][0].results.append(rows)
            return
        column = self.sql.columns[0]
        taken = {row[column]: row for row in rows}
        for write, values in self.members:
            row = taken.get(values[0])
            write.results.append([row] if row is not None else [])


def _mark_retrieved(done: "asyncio.Future[list[Rows]]") -> None:
    """A failure counts as seen: who waited may be gone, and asyncio would complain."""
    if not done.cancelled():
        done.exception()


def _grouped(writes: Sequence[_Write]) -> list[_Group]:
    """Statements in order, neighbouring rows for one table together."""
    groups: list[_Group] = []
    for write in writes:
        for statement, values in write.statements:
            if groups and isinstance(statement, InsertStatement) and groups[-1].sql is statement:
                groups[-1].members.append((write, values))
            else:
                groups.append(_Group(statement, [(write, values)]))
    return groups


def _storable(text: str, no_nul: bool) -> str:
    """Half of a surrogate pair is no character and PostgreSQL has no NUL: both become U+FFFD."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if no_nul else text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd") if no_nul else text


__all__ = ["Database", "InsertStatement", "Row", "Rows", "SqlStatement", "Value"]
