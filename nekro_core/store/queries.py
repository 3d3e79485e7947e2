"""Reads rows by conditions that `compat` builds for plugins."""

from dataclasses import dataclass

from nekro_core.store.database import Database, Rows, SqlStatement, Value

READABLE = frozenset({"accounts", "chats", "users", "messages", "runs", "plugin_data"})
"""Tables that may be read this way."""


@dataclass(frozen=True, slots=True)
class WhereClause:
    """A condition in SQL, with ``?`` for each of ``values``. Our own code writes the SQL; what
    comes from a plugin or a person is among the values."""

    sql: str = ""
    values: tuple[Value, ...] = ()


class ConditionQueries:
    """Reads by condition. Names of tables and columns are the caller's own constants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def select(
        self, table: str, where: WhereClause, *, order: str = "", limit: int = 0, offset: int = 0
    ) -> Rows:
        """The rows for which a condition holds; ``limit`` 0 is all of them."""
        bounds = f" LIMIT {int(limit)} OFFSET {int(offset)}" if limit else ""
        order = f" ORDER BY {order}" if order else ""
        sql = f"SELECT * FROM {_known(table)}{_clause(where)}{order}{bounds}"
        return await self._database.read(sql, *where.values)

    async def count(self, table: str, where: WhereClause) -> int:
        """How many rows there are for which a condition holds."""
        sql = f"SELECT COUNT(*) AS number FROM {_known(table)}{_clause(where)}"
        (row,) = await self._database.read(sql, *where.values)
        return int(row["number"])

    async def set_name(self, row_id: int, name: str) -> None:
        """Give a user another name."""
        await self._database.write(
            SqlStatement("UPDATE users SET name = ? WHERE id = ?", (name, row_id))
        )


def _known(table: str) -> str:
    if table not in READABLE:
        raise ValueError(f"table {table!r}: expected one of {', '.join(sorted(READABLE))}")
    return table


def _clause(where: WhereClause) -> str:
    return f" WHERE {where.sql}" if where.sql else ""
