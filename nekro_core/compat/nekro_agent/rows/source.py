"""The sources from which queries read rows: a table of the database, or a list in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nekro_core.compat.nekro_agent.rows.conditions import ColumnCondition
from nekro_core.store.queries import ConditionQueries, WhereClause


class RowSource(Protocol):
    """The source of the rows of one class."""

    @property
    def columns(self) -> Mapping[str, ColumnCondition]:
        """The fields whose conditions can be written in SQL."""

    @property
    def orders(self) -> Mapping[str, str]:
        """The fields by which the database can order rows: maps each field to its column."""

    @property
    def default_order(self) -> str:
        """The column that decides the order of rows if the query's own order does not."""

    async def rows(
        self, where: WhereClause, *, order: Sequence[str], limit: int, offset: int
    ) -> Sequence[Any]:
        """Read rows in an order. A ``limit`` of 0 means no limit."""

    async def count(self, where: WhereClause) -> int:
        """Count the rows for which ``where`` is true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table of the database. ``read`` converts a row of the table to the argument of `Row.of`."""

    queries: ConditionQueries
    table: str
    read: Callable[[Any], Any]
    columns: Mapping[str, ColumnCondition] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    default_order: str = "id"

    async def rows(
        self, where: WhereClause, *, order: Sequence[str], limit: int, offset: int
    ) -> Sequence[Any]:
        """See `RowSource`."""
        found = await self.queries.select(
            self.table, where, order=order, limit=limit, offset=offset
        )
        return [self.read(row) for row in found]

    async def count(self, where: WhereClause) -> int:
        """See `RowSource`."""
        return await self.queries.count(self.table, where)


@dataclass(frozen=True, slots=True)
class ListSource:
    """A list of rows in memory."""

    items: Sequence[Any]
    columns: Mapping[str, ColumnCondition] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    default_order: str = ""

    async def rows(
        self, where: WhereClause, *, order: Sequence[str], limit: int, offset: int
    ) -> Sequence[Any]:
        """See `RowSource`. Conditions and order are ignored here; `Query` applies them
        afterwards."""
        del where, order
        return self.items[offset : offset + limit if limit else None]

    async def count(self, where: WhereClause) -> int:
        """See `RowSource`."""
        del where
        return len(self.items)
