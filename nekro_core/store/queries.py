"""Reads rows by conditions that plugins choose. `nekro_core.compat` translates the plugins'
queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nekro_core.store.database import Database, Rows, SqlStatement, Value
from nekro_core.store.guest_queries import GuestQuery

READABLE = frozenset({"accounts", "chats", "users", "messages", "runs", "plugin_data"})
"""Tables that may be read with these conditions."""
Sign = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class WhereClause:
    """A condition in SQL, with ``?`` for each of ``values``. If the SQL is empty, every row
    matches.

    Only this module writes the SQL text. Input of plugins and persons appears only in the values.
    """

    sql: str = ""
    values: tuple[Value, ...] = ()

    @classmethod
    def join(
        cls, clauses: Sequence["WhereClause"], *, any_of: bool = False, negated: bool = False
    ) -> "WhereClause":
        """Join clauses. All clauses must match. With ``any_of``, one matching clause is enough.
        ``negated`` inverts the result."""
        sql = (" OR " if any_of else " AND ").join(f"({each.sql})" for each in clauses) or "1 = 1"
        values = tuple(value for each in clauses for value in each.values)
        return cls(f"{'NOT ' if negated else ''}({sql})", values)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Its methods return conditions on the column. The name must be a
    constant."""

    name: str

    def compare(self, sign: Sign, value: Value) -> WhereClause:
        """Match rows whose value has this relation to ``value``, for example ``<``."""
        return WhereClause(f"{self.name} {sign} ?", (value,))

    def is_in(self, values: Sequence[Value], *, negated: bool = False) -> WhereClause:
        """Match rows whose value is one of ``values``. With ``negated``, match the other rows."""
        if not values:
            return WhereClause("1 = 1" if negated else "1 = 0")
        marks = ", ".join("?" * len(values))
        return WhereClause(f"{self.name} {'NOT ' if negated else ''}IN ({marks})", tuple(values))

    def contains(self, text: str) -> WhereClause:
        """Match rows whose text contains the non-empty ``text``, case-sensitively."""
        # REPLACE distinguishes upper and lower case on all databases. On SQLite, LIKE does not.
        return WhereClause(f"REPLACE({self.name}, ?, '') <> {self.name}", (text,))

    def starts_with(self, text: str) -> WhereClause:
        """Match rows whose text begins with ``text``, case-sensitively."""
        return WhereClause(f"SUBSTR({self.name}, 1, {len(text)}) = ?", (text,))


class ConditionQueries:
    """Reads rows that match conditions. Names of tables and columns must be constants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def select(
        self,
        table: str,
        where: WhereClause,
        *,
        order: Sequence[str] = (),
        limit: int = 0,
        offset: int = 0,
    ) -> Rows:
        """Get the rows that match. ``limit`` 0 means no limit. A ``-`` before a column in ``order``
        means descending."""
        bounds = f" LIMIT {int(limit)} OFFSET {int(offset)}" if limit else ""
        columns = (f"{each[1:]} DESC" if each.startswith("-") else each for each in order)
        ordered = f" ORDER BY {', '.join(columns)}" if order else ""
        sql = f"SELECT * FROM {_known(table)}{_clause(where)}{ordered}{bounds}"
        return await self._database.read(sql, *where.values)

    async def count(self, table: str, where: WhereClause) -> int:
        """Count the rows that match."""
        sql = f"SELECT COUNT(*) AS number FROM {_known(table)}{_clause(where)}"
        (row,) = await self._database.read(sql, *where.values)
        return int(row["number"])

    async def guest_select(self, query: GuestQuery) -> Rows:
        """Run a SELECT that a plugin wrote. Raises `GuestQueryRefused` and `StoreUnavailable`."""
        return await self._database.guest_select(query)

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgres``."""
        return self._database.dialect

    async def set_name(self, instance: str, user_id: str, name: str) -> None:
        """Change a user's name. Nothing happens if the user is not stored."""
        await self._database.write(
            SqlStatement(
                "UPDATE users SET name = ? WHERE instance = ? AND user_id = ?",
                (name, instance, user_id),
            )
        )


def _known(table: str) -> str:
    if table not in READABLE:
        raise ValueError(f"table {table!r}: expected one of {', '.join(sorted(READABLE))}")
    return table


def _clause(where: WhereClause) -> str:
    return f" WHERE {where.sql}" if where.sql else ""
