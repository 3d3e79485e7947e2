"""One transaction on a PostgreSQL connection, and whether it was committed when that was lost."""

from collections.abc import Sequence
from typing import Any, cast

import asyncpg

from nekro_core.store.engine import Bound, Rows

Connection = Any
"""asyncpg's connection; it is not typed."""


class PostgresTransaction:
    """Runs statements once. Its number on the server is asked for before the commit: by it the
    next connection learns what became of a commit whose answer was lost."""

    def __init__(self, statements: Sequence[Bound]) -> None:
        self._statements = statements
        self._number: int | None = None
        self.rows: list[Rows] | None = None
        """What the statements gave, from when the commit is asked for."""

    async def run(self, connection: Connection) -> list[Rows]:
        """Commit. Raises what asyncpg raises; where `rows` is there by then, the outcome is open if
        the connection was lost."""
        async with connection.transaction():
            rows = [
                cast(Rows, await connection.fetch(numbered_placeholders(sql), *values))
                for sql, values in self._statements
            ]
            self._number = await connection.fetchval("SELECT txid_current_if_assigned()")
            self.rows = rows
        return rows

    async def was_committed(self, connection: Connection) -> bool:
        """Asked on the next connection, once the session of the first has ended: only then nothing
        is in progress. Raises what asyncpg raises."""
        if self._number is None:
            return True  # It changed nothing.
        try:
            status = await connection.fetchval("SELECT txid_status($1)", self._number)
        except asyncpg.InvalidParameterValueError:
            return False  # A server that crashed has not kept the number, nor what was done.
        return bool(status == "committed")


def numbered_placeholders(sql: str) -> str:
    """PostgreSQL's way of saying where a value goes."""
    head, *rest = sql.split("?")
    return head + "".join(f"${number}{text}" for number, text in enumerate(rest, 1))
