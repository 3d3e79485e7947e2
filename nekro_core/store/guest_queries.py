"""Describes a SELECT whose text a plugin wrote. The engines run this SELECT so that it can read
only the tables that the bot offers to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nekro_core.store.engine import Value
from nekro_core.store.errors import StoreError

MOST_ROWS = 10_000
"""Maximum number of rows of a result. A longer result is refused. It is not cut, because somebody
might take a part for the whole."""
LIMIT_S = 5.0
"""Maximum number of seconds that a query may take."""
LONGEST_SQL = 20_000
LARGEST_VALUE = 10_000_000
"""Maximum number of bytes of one value on SQLite."""


class GuestQueryRefused(StoreError):
    """The query was not run, or it was ended before it was done. The text says why and what is
    allowed."""


@dataclass(frozen=True, slots=True)
class GuestTable:
    """A table that is filled for one query. ``columns`` has the SQL type of each column: TEXT,
    BIGINT or BOOLEAN."""

    columns: Mapping[str, str]
    rows: Sequence[tuple[Value, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestQuery:
    """A SELECT, with ``$1``, ``$2`` for its values, and the views and tables that it may read.

    ``views`` has the SQL of each view by its name. ``tables`` has each table by its name.
    ``behind`` names the bot's own tables that the views read. The bot sets these three fields; a
    plugin sets only ``sql`` and ``values``.
    """

    sql: str
    values: tuple[Value, ...] = ()
    views: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, GuestTable] = field(default_factory=dict)
    behind: frozenset[str] = frozenset()

    def offered(self) -> str:
        """Name the tables, for an error text."""
        return ", ".join(sorted({*self.views, *self.tables}))

    def check(self) -> None:
        """Raise `GuestQueryRefused` if the SQL is clearly not a single SELECT."""
        words = self.sql.split(maxsplit=1)
        if len(self.sql) > LONGEST_SQL:
            raise GuestQueryRefused(f"the SQL is longer than {LONGEST_SQL} characters")
        if not words or words[0].lower() not in ("select", "with"):
            raise GuestQueryRefused(
                f"{self.sql.strip()[:40]!r}: a plugin can only read, with SELECT or WITH"
            )


def too_many() -> GuestQueryRefused:
    """Make the error of a result with too many rows."""
    return GuestQueryRefused(f"the result has over {MOST_ROWS} rows: write a LIMIT")


def too_slow() -> GuestQueryRefused:
    """Make the error of a query that takes too long."""
    return GuestQueryRefused(f"the query took over {LIMIT_S:g} s and was ended")
