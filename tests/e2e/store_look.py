"""A look into a bot's database from beside it, whichever kind it is."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import anyio
import asyncpg

Rows = Sequence[Sequence[Any]]


class StoreLook:
    """Reads what the bot has committed. ``url`` is empty for the file under ``data``. An async
    context manager."""

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
