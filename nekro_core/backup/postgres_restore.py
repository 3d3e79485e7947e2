"""Replaces the bot's tables on a PostgreSQL server with the tables of a backup."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from nekro_core.backup.errors import RestoreRefused
from nekro_core.backup.postgres_copy import dump_postgres, restore_postgres
from nekro_core.backup.progress import BackupWork, run_in_thread
from nekro_core.store.restored_tables import drop_tables, newest_own_migration, own_tables

if TYPE_CHECKING:
    from nekro_core.store.postgres import PostgresEngine

_PATIENCE_S = 5.0


@asynccontextmanager
async def server_tables_replaced(
    url: str, dump: Path, aside: Path, work: BackupWork, *, replace: bool
) -> AsyncIterator[None]:
    """Replace the bot's tables in the database by the tables of a backup. Other tables are not
    changed. If the body of the ``async with`` block fails, the old tables are put back.

    If the database has tables of the bot, ``replace`` must be true, and they are first written to
    the file ``aside`` with pg_dump. If the restore fails, the old tables are put back from that
    file. Raises `RestoreRefused`, `BackupRefused` (pg_dump fails), `BackupCancelled` and
    `StoreError`.
    """
    async with _own(url) as engine:
        present = await own_tables(engine)
        if present and not replace:
            raise RestoreRefused(
                "the database on the server has tables of a bot: restore into an empty one, or say "
                "--replace; then they are first saved with pg_dump"
            )
        if present:
            await run_in_thread(work, partial(dump_postgres, url, aside, lambda _: None))
            await drop_tables(engine, present)
        try:
            await run_in_thread(
                work, partial(restore_postgres, url, dump, lambda _: work.advance(0))
            )
        except BaseException:
            await _put_back(engine, url, aside if present else None)
            raise
    try:
        yield
    except BaseException:
        with anyio.CancelScope(shield=True):
            async with _own(url) as engine:
                await _put_back(engine, url, aside if present else None)
        raise


async def newest_on_server(url: str) -> str:
    """Return the newest migration of the bot's tables on a server, which no bot may use. Raises
    `StoreError`, and `RestoreRefused` if asyncpg is missing."""
    async with _own(url) as engine:
        return await newest_own_migration(engine)


async def _put_back(engine: "PostgresEngine", url: str, aside: Path | None) -> None:
    """Drop the bot's tables. Then restore the tables from the file ``aside``, if it is given."""
    await drop_tables(engine, await own_tables(engine))
    if aside is not None:
        await run_in_thread(BackupWork(), partial(restore_postgres, url, aside, lambda _: None))


@asynccontextmanager
async def _own(url: str) -> AsyncIterator["PostgresEngine"]:
    """Hold the lock of the database, so that no bot uses it."""
    try:
        from tortoise.backends.base.config_generator import expand_db_url  # noqa: PLC0415 - as above

        from nekro_core.store.postgres import PostgresEngine  # noqa: PLC0415 (asyncpg is an extra)
    except ModuleNotFoundError as error:
        raise RestoreRefused(
            f"{error.name} is missing: pip install 'nekro-core[postgres]'"
        ) from None
    credentials = expand_db_url(url)["credentials"]
    async with PostgresEngine.open(credentials, patience_s=_PATIENCE_S) as engine:
        yield engine
