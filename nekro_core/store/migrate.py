"""Migrates the tables of older versions, with Tortoise ORM.

A SQLite file that is new or up to date does not need this module. The module imports Tortoise and
the models, which takes 0.2 s and 9 MiB. So the module `upgrade` imports it only when there is
something to migrate.
"""

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tortoise.backends.base.client import BaseDBAsyncClient
from tortoise.context import TortoiseContext
from tortoise.migrations.executor import MigrationExecutor
from tortoise.migrations.recorder import MigrationRecorder
from tortoise.migrations.schema_editor import AsyncpgSchemaEditor
from tortoise.transactions import in_transaction

from nekro_core.store import migrations
from nekro_core.store.engine import explain
from nekro_core.store.errors import MigrationFailed, StoreUnavailable
from nekro_core.store.upgrade import APP, is_compatible, pending_migrations

APPS: dict[str, dict[str, Any]] = {
    APP: {
        "models": ["nekro_core.store.models"],
        "default_connection": "default",
        "migrations": migrations.__name__,
    }
}


def configuration(engine: str, credentials: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration for Tortoise."""
    connection = {"engine": engine, "credentials": credentials}
    return {"connections": {"default": connection}, "apps": APPS}


async def migrate_file(path: Path) -> None:
    """Migrate a SQLite file. The file is a copy that nobody uses yet, so the writes are not synced
    to the disk."""
    async with TortoiseContext() as context:
        credentials = {"file_path": str(path), "synchronous": "OFF"}
        await context.init(configuration("tortoise.backends.sqlite", credentials))
        await _migrate(context.db())


async def upgrade_server(
    tortoise: dict[str, Any], no_others: Callable[[str], Awaitable[None]] | None = None
) -> None:
    """Create or migrate the tables on a PostgreSQL server in one transaction, so that nothing is
    changed if the process is killed meanwhile.

    ``no_others`` is given if other processes may use the database. It is called with the name of a
    migration that they could not work with, and raises `DatabaseInUse` if there are any. Raises the
    errors of `upgrade_file`.
    """
    try:
        async with TortoiseContext() as context:
            await context.init(tortoise)
            connection = context.db()
            # The table of migrations is created first. Otherwise Tortoise would read the table
            # before it exists, and the error would abort the transaction.
            editor = AsyncpgSchemaEditor(connection, atomic=False)
            await MigrationRecorder(connection).ensure_schema(editor)
            await upgrade_connection(connection, in_transaction, no_others)
    except OSError as error:
        raise StoreUnavailable(explain(str(error))) from error


async def upgrade_connection(
    connection: BaseDBAsyncClient,
    whole: Callable[[str], AbstractAsyncContextManager[BaseDBAsyncClient]] | None = None,
    no_others: Callable[[str], Awaitable[None]] | None = None,
) -> None:
    """Migrate the database of a connection. If ``whole`` is given, it opens the transaction in
    which the migration runs. ``no_others`` is as in `upgrade_server`. Raises `DatabaseInUse`,
    `DatabaseTooNew` and `MigrationFailed`."""
    keys = await MigrationRecorder(connection).applied_migrations()
    applied = [key.name for key in keys if key.app_label == APP]
    pending = pending_migrations(applied, "the database", shared=no_others is not None)
    if not pending:
        return
    if no_others is not None and applied:
        for each in pending:
            if not is_compatible(each):
                await no_others(each)
    try:
        async with whole("default") if whole else nullcontext(connection) as migrated:
            await _migrate(migrated)
    except Exception as error:
        raise MigrationFailed(
            f"the database could not be brought to {pending[-1]}: {explain(str(error))}. "
            "Nothing in it was changed; mend the cause and start again."
        ) from error


async def _migrate(connection: BaseDBAsyncClient) -> None:
    with _collecting():
        await MigrationExecutor(connection, APPS).migrate(direction="forward")


@contextmanager
def _collecting() -> Iterator[None]:
    """Collect cycles while the block runs, and at its end.

    Migrations leave 150 MiB of objects in cycles. At the start of the bot the collector is off, and
    what is not collected by the end of the start is never collected (`gc.freeze`). If the cycles
    are collected only at the end of the block, their memory does not go back to the system, since
    objects that live on are scattered in it.
    """
    was_on = gc.isenabled()
    gc.enable()
    try:
        yield
    finally:
        gc.collect()
        if not was_on:
            gc.disable()
