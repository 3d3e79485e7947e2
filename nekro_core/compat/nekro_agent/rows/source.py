"""Where a query's rows come from: a table of the store, or a list in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nekro_core.compat.nekro_agent.rows.conditions import ColumnCondition
from nekro_core.store.queries import ConditionQueries, WhereClause


class RowSource(Protocol):
    """Where the rows of one class come from."""

    @property
    def columns(self) -> Mapping[str, ColumnCondition]:
        """The fields whose conditions can be written in SQL."""

    @property
    def orders(self) -> Mapping[str, str]:
        """The fields that the database can order by, with their columns."""

    @property
    def default_order(self) -> str:
        """The column that orders rows which are equal in the query's order."""

    async def rows(
        self, where: WhereClause, *, order: Sequence[str], limit: int, offset: int
    ) -> Sequence[Any]:
        """Rows in an order; with ``limit`` 0 all of them."""

    async def count(self, where: WhereClause) -> int:
        """How many rows there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table of the store. ``read`` converts a row of it to the argument of `Row.of`."""

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
    """Rows in memory."""

    items: Sequence[Any]
    columns: Mapping[str, ColumnCondition] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    default_order: str = ""

    async def rows(
        self, where: WhereClause, *, order: Sequence[str], limit: int, offset: int
    ) -> Sequence[Any]:
        """See `RowSource`. `Query` applies conditions and order to the rows afterwards."""
        del where, order
        return self.items[offset : offset + limit if limit else None]

    async def count(self, where: WhereClause) -> int:
        """See `RowSource`."""
        del where
        return len(self.items)
