"""Reads the database of a bot under test, in SQLite or in PostgreSQL."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import anyio
import asyncpg

Rows = Sequence[Sequence[Any]]
_OTHERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


class StoreLook:
    """Reads what the bot has committed. If ``url`` is empty, this reads the SQLite file in
    ``data``. Use it as an async context manager."""

    def __init__(self, data: Path, url: str = "") -> None:
        self._path = data / "nekro.sqlite3"
        self._url = url
        self._server: asyncpg.Connection | None = None
        self._asking = anyio.Lock()

    async def __aenter__(self) -> Self:
        if self._url:
            self._server = await asyncpg.connect(self._url.replace("asyncpg", "postgresql", 1))
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            await self._server.close()

    async def settled(self) -> None:
        """Wait until no other client is connected to the server. The server still finishes the
        statements of a killed process. Until then the row of a call may look as if the call had not
        begun. With SQLite there is no server, so this returns at once."""
        with anyio.fail_after(30):
            while self._server is not None and await self.column(_OTHERS):
                await anyio.sleep(0.01)

    async def rows(self, query: str) -> Rows:
        """A query's rows."""
        if self._server is not None:
            async with self._asking:
                return [tuple(row) for row in await self._server.fetch(query)]
        connection = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    async def column(self, query: str) -> list[Any]:
        """A query's only column."""
        return [value for (value,) in await self.rows(query)]
