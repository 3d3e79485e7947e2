"""Runs a plugin's SELECT on a SQLite file, on a separate connection.

The connection is read-only. SQLite asks an authorizer for each table and column: the query may read
the offered tables and views, and the bot's own tables only inside a view.
"""

import re
import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from nekro_core.store.engine import Row
from nekro_core.store.guest_queries import (
    LARGEST_VALUE,
    LIMIT_S,
    MOST_ROWS,
    GuestQuery,
    GuestQueryRefused,
    too_many,
    too_slow,
)

_STEPS = 20_000
"""The time is checked after each this many instructions of SQLite. They take well below a
millisecond."""
_NUMBERED = re.compile(r"\$\d")


def select_in_file(path: str, query: GuestQuery) -> list[Row]:
    """Run the query and return its rows. Blocks for at most `LIMIT_S`. Raises `GuestQueryRefused`
    and the errors of `sqlite3`."""
    if path == ":memory:":
        raise GuestQueryRefused("this database is in memory: SQL of plugins needs a file")
    query.check()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # Let SQLite sort large results in a file. In memory, a plugin's query could fill the
        # memory.
        connection.execute("PRAGMA temp_store = FILE")
        for name, table in query.tables.items():
            marks = ", ".join("?" * len(table.columns))
            columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
            connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
            connection.executemany(f"INSERT INTO temp.{name} VALUES ({marks})", table.rows)
        inner = {name: f"view_{secrets.token_hex(16)}" for name in query.views}
        for name, sql in query.views.items():
            connection.execute(f"CREATE TEMP VIEW {inner[name]} AS {sql}")
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM temp.{inner[name]}")
        connection.execute("PRAGMA query_only = ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        connection.set_authorizer(_authorizer(query, frozenset(inner.values())))
        end = time.monotonic() + LIMIT_S
        connection.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
        connection.row_factory = sqlite3.Row
        try:
            cursor = connection.execute(query.sql, _bound(query))
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except sqlite3.Error as error:
            if time.monotonic() > end:
                raise too_slow() from error
            raise _explained(error, query) from error
    if len(rows) > MOST_ROWS:
        raise too_many()
    return [dict(row) for row in rows]


def _bound(query: GuestQuery) -> Any:
    """Return the values in the form that the SQL needs: by name for ``$1`` and ``$2``, which SQLite
    reads as names, or as a sequence for ``?``."""
    if _NUMBERED.search(query.sql):
        return {str(number): value for number, value in enumerate(query.values, 1)}
    return query.values


def _authorizer(query: GuestQuery, inner: frozenset[str]) -> Callable[..., int]:
    """Make the authorizer that SQLite asks for each table and column. ``inner`` has the names of
    the views that read the bot's own tables. These names are random, so that a plugin cannot use
    one as the alias of a subquery. SQLite reports such an alias as if it were the name of a
    view."""
    offered = inner | {*query.views, *query.tables}

    def allow(action: int, first: str, second: str, schema: str, view: str) -> int:
        match action:
            case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_FUNCTION if second.lower() != "load_extension":
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_READ:
                # ``second`` is the column. It is empty if the query only counts rows.
                counted = not second and first in offered | query.behind
                own = first in offered and schema == "temp"
                inside = first in query.behind and view in inner
                if counted or own or inside or first == "json_each":
                    return sqlite3.SQLITE_OK
            case _:
                pass
        return sqlite3.SQLITE_DENY

    return allow


def _explained(error: sqlite3.Error, query: GuestQuery) -> GuestQueryRefused:
    return GuestQueryRefused(
        f"SQLite: {error}. A plugin can only read, with one SELECT, from {query.offered()}"
    )
