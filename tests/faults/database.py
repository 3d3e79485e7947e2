"""Locks the database like another program, such as a backup, a shell or a long report."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import asyncpg


@asynccontextmanager
async def locked(data: Path, url: str = "") -> AsyncIterator[None]:
    """Block all other writers while the block runs. An empty ``url`` means the SQLite file under
    ``data``."""
    if url:
        connection = await asyncpg.connect(url.replace("asyncpg", "postgresql", 1))
        try:
            async with connection.transaction():
                tables = await connection.fetch(
                    "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
                )
                names = ", ".join(row["tablename"] for row in tables)
                await connection.execute(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
                yield
        finally:
            await connection.close()
        return
    path = data / "nekro.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
