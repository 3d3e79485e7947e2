"""A table of ours as the source of a query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nekro_core.compat.nekro_agent.rows.conditions import ColumnCondition
from nekro_core.store.queries import ConditionQueries, WhereClause


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """See `nekro_core.compat.nekro_agent.rows.query.RowSource`. ``read`` makes of a row what the
    model takes."""

    queries: ConditionQueries
    table: str
    read: Callable[[Any], Any]
    columns: Mapping[str, ColumnCondition] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    default_order: str = "id"

    async def rows(
        self, where: WhereClause, *, order: str, limit: int, offset: int
    ) -> Sequence[Any]:
        """See `Source`."""
        found = await self.queries.select(
            self.table, where, order=order, limit=limit, offset=offset
        )
        return [self.read(row) for row in found]

    async def count(self, where: WhereClause) -> int:
        """See `Source`."""
        return await self.queries.count(self.table, where)


@dataclass(frozen=True, slots=True)
class ListSource:
    """Rows that are in memory."""

    found: Sequence[Any]
    columns: Mapping[str, ColumnCondition] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    default_order: str = ""

    async def rows(
        self, where: WhereClause, *, order: str, limit: int, offset: int
    ) -> Sequence[Any]:
        """See `Source`; nothing is said in SQL."""
        del where, order
        return self.found[offset : offset + limit if limit else None]

    async def count(self, where: WhereClause) -> int:
        """See `Source`."""
        del where
        return len(self.found)
