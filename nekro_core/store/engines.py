"""Opens the engine of a database URL and brings its tables up to date."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from nekro_core.store.engine import DatabaseEngine
from nekro_core.store.errors import StoreUnavailable
from nekro_core.store.settings import StoreSettings
from nekro_core.store.sqlite import IN_MEMORY, SqliteEngine
from nekro_core.store.upgrade import upgrade_file

_PRAGMAS = {"journal_mode": "WAL", "journal_size_limit": "16384", "foreign_keys": "ON"}
"""Settings of a SQLite connection. A setting in the URL replaces the one here.
``journal_size_limit`` is in bytes."""
_POSTGRES = "tortoise.backends.asyncpg"
_POSTGRES_URLS = ("asyncpg:", "postgres:", "postgresql:")
"""The beginnings of database URLs for which Tortoise chooses this engine."""
_PASSWORD = re.compile(r"(?<=:)[^:@/\s]+(?=@)")


def is_postgres(url: str) -> bool:
    """Return whether a database URL names PostgreSQL."""
    return url.startswith(_POSTGRES_URLS)


@asynccontextmanager
async def open_engine(
    url: str, settings: StoreSettings, clock: Callable[[], float]
) -> AsyncIterator[DatabaseEngine]:
    """Open the engine of a URL, which has the form of Tortoise ORM's URLs. Raises the errors of
    `Store.open`."""
    if url.startswith("sqlite:"):
        if settings.node:
            raise StoreUnavailable(
                f"NEKRO_STORE__NODE is {settings.node!r}: several processes cannot share a "
                "SQLite file; name a PostgreSQL database in NEKRO_DATABASE_URL (asyncpg://user:password@host:5432/name)"
            )
        opening = _sqlite(url, settings, clock)
    else:
        opening = _postgres(_parse(url), settings)
    async with opening as opened:
        yield opened


@asynccontextmanager
async def _sqlite(
    url: str, settings: StoreSettings, clock: Callable[[], float]
) -> AsyncIterator[DatabaseEngine]:
    parts = urlsplit(url)
    path = parts.netloc + parts.path
    if not path:
        raise _unusable(url, "it names no file")
    pragmas = {
        **_PRAGMAS,
        "synchronous": settings.synchronous,
        # Overwrite deleted data, so that an erased person's data does not stay in free pages.
        "secure_delete": 1,
        "busy_timeout": int(settings.busy_timeout_s * 1000),
        **dict(parse_qsl(parts.query)),
    }
    if path != IN_MEMORY:
        await upgrade_file(Path(path), copies=settings.copies, clock=clock)
    async with AsyncExitStack() as stack:
        try:
            opened = await stack.enter_async_context(SqliteEngine.open(path, pragmas))
            await opened.read("SELECT 1", ())
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{url.partition('?')[0]}: {error}") from error
        yield opened


@asynccontextmanager
async def _postgres(
    credentials: dict[str, Any], settings: StoreSettings
) -> AsyncIterator[DatabaseEngine]:
    try:
        # This import needs asyncpg, which is optional: a bot with a SQLite file does not need it.
        from nekro_core.store.postgres import PostgresEngine  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"NEKRO_DATABASE_URL names PostgreSQL, and {error.name} is not installed: "
            "pip install 'nekro-core[postgres]'"
        ) from error
    patience_s, node = settings.busy_timeout_s, settings.node
    # The tables may be changed only while this process holds the lock of the database. Nodes
    # share this lock, so one migrates after another, and the later ones find nothing to do.
    async with PostgresEngine.open(credentials, patience_s=patience_s, node=node) as engine:
        async with engine.migrating():
            # This imports Tortoise. It is imported here, because a bot with a SQLite file does not
            # need it.
            from nekro_core.store.migrate import configuration, upgrade_server  # noqa: PLC0415

            no_others = engine.require_no_others if engine.shared else None
            await upgrade_server(configuration(_POSTGRES, credentials), no_others)
        yield engine


def own_databases_query(prefix: str) -> str:
    """Return a query for PostgreSQL. Its one value is the list of the databases of the present user
    whose names begin with ``prefix``; null if there are none. Raises `ValueError` if the prefix has
    other characters than lower-case letters, digits and underscores."""
    if not re.fullmatch("[a-z0-9_]+", prefix):
        raise ValueError(f"{prefix!r} is no beginning of a database's name: [a-z0-9_] was expected")
    return (
        "SELECT array_agg(datname::text) FROM pg_database WHERE "
        f"pg_get_userbyid(datdba) = current_user AND starts_with(datname, '{prefix}')"
    )


def connections_query(database: str) -> str:
    """Return a query for PostgreSQL. Its one value is the number of connections to a database.
    Raises `ValueError` if the name has other characters than lower-case letters, digits and
    underscores."""
    if not re.fullmatch("[a-z0-9_]+", database):
        raise ValueError(f"{database!r} is no name of a database: [a-z0-9_] was expected")
    return f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"


def _parse(url: str) -> dict[str, Any]:
    from tortoise.backends.base.config_generator import expand_db_url  # noqa: PLC0415 - as above
    from tortoise.exceptions import BaseORMException  # noqa: PLC0415

    try:
        parsed = expand_db_url(url)
    except (BaseORMException, ValueError) as error:
        raise _unusable(url, str(error)) from error
    if parsed["engine"] != _POSTGRES:
        raise _unusable(url, "expected sqlite:// or asyncpg://")
    return dict(parsed["credentials"])


def _unusable(url: str, fault: str) -> StoreUnavailable:
    said = f"NEKRO_DATABASE_URL {url!r}: {fault}; for example sqlite:///path/to/nekro.sqlite3"
    return StoreUnavailable(_PASSWORD.sub("***", said))
