"""Opens the engine of a database URL and brings its tables up to date."""

import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tortoise.backends.base.config_generator import expand_db_url
from tortoise.context import TortoiseContext
from tortoise.exceptions import BaseORMException

from nekro_core.store.engine import DatabaseEngine, explain
from nekro_core.store.errors import StoreUnavailable
from nekro_core.store.settings import StoreSettings
from nekro_core.store.sqlite import SqliteEngine
from nekro_core.store.upgrade import (
    configuration,
    upgrade_connection,
    upgrade_file,
    upgrade_server,
)

_SQLITE = "tortoise.backends.sqlite"
_POSTGRES = "tortoise.backends.asyncpg"
_PASSWORD = re.compile(r"(?<=:)[^:@/\s]+(?=@)")


@asynccontextmanager
async def open_engine(
    url: str, settings: StoreSettings, clock: Callable[[], float]
) -> AsyncIterator[DatabaseEngine]:
    """Open the engine of a Tortoise URL. Raises the errors of `Store.open`."""
    engine, credentials = _parse(url)
    if engine == _SQLITE:
        where = url.partition("?")[0]
        async with _sqlite(where, credentials, settings, clock) as opened:
            yield opened
    else:
        async with _postgres(credentials, settings) as opened:
            yield opened


@asynccontextmanager
async def _sqlite(
    where: str, credentials: dict[str, Any], settings: StoreSettings, clock: Callable[[], float]
) -> AsyncIterator[DatabaseEngine]:
    credentials.setdefault("synchronous", settings.synchronous)
    # Overwrite deleted data, so that an erased person's data does not stay in free pages.
    credentials.setdefault("secure_delete", 1)
    credentials.setdefault("busy_timeout", int(settings.busy_timeout_s * 1000))
    in_memory = credentials["file_path"] == ":memory:"
    if not in_memory:
        path = Path(credentials["file_path"])
        await upgrade_file(path, copies=settings.copies, clock=clock)
    async with TortoiseContext() as context:
        try:
            await context.init(configuration(_SQLITE, credentials))
            connection = context.db()
            await connection.execute_query("SELECT 1")
        except (BaseORMException, sqlite3.Error, OSError) as error:
            raise StoreUnavailable(f"{where}: {explain(str(error))}") from error
        if in_memory:
            await upgrade_connection(connection)
        yield SqliteEngine(connection)


@asynccontextmanager
async def _postgres(
    credentials: dict[str, Any], settings: StoreSettings
) -> AsyncIterator[DatabaseEngine]:
    try:
        # asyncpg is optional: a bot with a SQLite file does not need it.
        from nekro_core.store.postgres import PostgresEngine  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"NEKRO_DATABASE_URL names PostgreSQL, and {error.name} is not installed: "
            "pip install 'nekro-core[postgres]'"
        ) from error
    # Migrate only while holding the lock.
    async with PostgresEngine.open(credentials, patience_s=settings.busy_timeout_s) as engine:
        await upgrade_server(configuration(_POSTGRES, credentials))
        yield engine


def _parse(url: str) -> tuple[str, dict[str, Any]]:
    said = ""
    try:
        parsed = expand_db_url(url)
    except (BaseORMException, ValueError) as error:
        said = str(error)
    else:
        if parsed["engine"] in (_SQLITE, _POSTGRES):
            return str(parsed["engine"]), dict(parsed["credentials"])
        said = "expected sqlite:// or asyncpg://"
    said = f"NEKRO_DATABASE_URL {url!r}: {said}; for example sqlite:///path/to/nekro.sqlite3"
    raise StoreUnavailable(_PASSWORD.sub("***", said))
