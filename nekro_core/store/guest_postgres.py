"""Runs a plugin's SELECT on PostgreSQL, in a read-only transaction that is rolled back.

The bot cannot rely on a database role with fewer rights, so this module checks each word of the SQL
before the SQL runs. The SQL may call only listed functions, and may name only tables without a
schema. The search path contains only the views and tables of the query, and the server's own
catalogue, whose names begin with ``pg_``.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import asyncpg

from nekro_core.store.engine import Row
from nekro_core.store.guest_queries import (
    LIMIT_S,
    MOST_ROWS,
    GuestQuery,
    GuestQueryRefused,
    too_many,
    too_slow,
)

_BEFORE_PARENTHESIS = """
all and any array as between by case distinct else except exists filter from group having ilike in
intersect is join lateral like limit materialized not offset on or over partition select some then
union using values when where within
"""
"""Words of SQL after which a parenthesis does not begin a function call."""
_FUNCTIONS = """
abs age array_agg avg bool_and bool_or btrim cast ceil ceiling char char_length coalesce concat
concat_ws count date date_part date_trunc decimal dense_rank every extract first_value floor
greatest json_agg json_build_object lag last_value lead least left length lower ltrim max min mod
mode now ntile nullif numeric percent_rank percentile_cont percentile_disc position power rank
regexp_replace replace reverse right round row_number rtrim sign split_part sqrt stddev string_agg
strpos substr substring sum to_char to_date to_timestamp trim upper varchar variance
"""
"""The functions that a query may call, and types with a length. Each function reads only its
arguments, and its result is not much larger than its arguments."""
_WORDS = frozenset(_BEFORE_PARENTHESIS.split())
_CALLABLE = frozenset(_FUNCTIONS.split())
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"[A-Za-z0-9_\u0080-\uffff ]+")
    | (?P<word>[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)
    | (?P<number>\d+(?:\.\d+)?|\$\d+)
    | (?P<sign>[-+*/%<>=!~|&^@?.,()\[\]:;])
    """,
    re.VERBOSE,
)
_PREFIXES = frozenset({"b", "e", "n", "u", "x"})
"""Words that change how PostgreSQL reads the text after them."""


async def select_on_server(connection: Any, query: GuestQuery) -> list[Row]:
    """Run the query on a connection of asyncpg and return its rows. Raises `GuestQueryRefused` and
    the errors of asyncpg."""
    query.check()
    schemas = {row[0] for row in await connection.fetch("SELECT nspname FROM pg_namespace")}
    sql = checked_sql(query, schemas)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await _offer(connection, query)
        cursor = await connection.cursor(sql, *query.values)
        rows = await cursor.fetch(MOST_ROWS + 1)
    except asyncpg.QueryCanceledError as error:
        raise too_slow() from error
    except (asyncpg.SyntaxOrAccessError, asyncpg.DataError) as error:
        raise _refused(f"PostgreSQL: {error}", query) from error
    finally:
        await transaction.rollback()
    if len(rows) > MOST_ROWS:
        raise too_many()
    return [dict(row) for row in rows]


async def _offer(connection: Any, query: GuestQuery) -> None:
    """Make the views and tables of a query. Then restrict the connection: read-only, a short
    time-out, and a search path with only these views and tables."""
    for name, table in query.tables.items():
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        marks = ", ".join(f"${number}" for number in range(1, len(table.columns) + 1))
        await connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
        await connection.executemany(f"INSERT INTO pg_temp.{name} VALUES ({marks})", table.rows)
    for name, view in query.views.items():
        await connection.execute(f"CREATE TEMP VIEW {name} AS {view}")
    for setting in (
        "search_path = pg_temp",
        "standard_conforming_strings = on",
        f"statement_timeout = {int(LIMIT_S * 1000)}",
        "transaction_read_only = on",
    ):
        await connection.execute(f"SET LOCAL {setting}")


def checked_sql(query: GuestQuery, schemas: set[str]) -> str:
    """Get the SQL without its comments. Raises `GuestQueryRefused` if the SQL is more than one
    SELECT, or could read more than the offered tables. ``schemas`` has the schemas of the
    database."""
    pieces = [*_tokens(query)]
    while pieces and pieces[-1][1] in (";", " "):
        pieces.pop()
    tokens = [*(piece for piece in pieces if piece[0] != "space"), ("end", "")]
    for (kind, text), (next_kind, following) in pairwise(tokens):
        if text == ";":
            raise _refused("one statement is expected", query)
        if kind not in ("word", "quoted"):
            continue
        name = text.strip('"').lower()
        callable_ = name in _CALLABLE or (kind == "word" and name in _WORDS)
        if name.startswith("pg_") or name == "uescape":
            raise _refused(f"{text} is of the server", query)
        if following == "(" and not callable_:
            raise _refused(f"the function {text} is not offered", query)
        if following == "." and name in schemas:
            raise _refused(f"{text} is a schema: write the table's name alone", query)
        if next_kind == "text" and kind == "word" and name in _PREFIXES:
            raise _refused(f"texts with the prefix {text} are not offered", query)
    return "".join(text for _, text in pieces)


def _tokens(query: GuestQuery) -> Iterator[tuple[str, str]]:
    at, sql = 0, query.sql
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None or sql.startswith("/*", at):
            raise _refused(f"{sql[at : at + 20]!r} is not understood", query)
        at = found.end()
        space = found.lastgroup == "space"
        yield str(found.lastgroup), " " if space else found.group()


def _refused(text: str, query: GuestQuery) -> GuestQueryRefused:
    return GuestQueryRefused(
        f"{text}. A plugin can only read, with one SELECT, from {query.offered()}"
    )
