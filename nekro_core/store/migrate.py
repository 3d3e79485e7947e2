"""Migrates the tables of older versions, with Tortoise.

A SQLite file that is new or up to date does not need this module. The module imports Tortoise and
the models, which takes 0.2 s and 9 MiB. So the module `upgrade` imports it only when there is
something to migrate.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
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
from nekro_core.store.upgrade import APP, pending_migrations

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


async def upgrade_server(tortoise: dict[str, Any]) -> None:
    """Create or migrate the tables on a PostgreSQL server in one transaction, so that nothing is
    changed if the process is killed meanwhile. Raises the errors of `upgrade_file`."""
    try:
        async with TortoiseContext() as context:
            await context.init(tortoise)
            connection = context.db()
            # The table of migrations is created first. Otherwise Tortoise would read the table
            # before it exists, and the error would abort the transaction.
            editor = AsyncpgSchemaEditor(connection, atomic=False)
            await MigrationRecorder(connection).ensure_schema(editor)
            await upgrade_connection(connection, in_transaction)
    except OSError as error:
        raise StoreUnavailable(explain(str(error))) from error


async def upgrade_connection(
    connection: BaseDBAsyncClient,
    whole: Callable[[str], AbstractAsyncContextManager[BaseDBAsyncClient]] | None = None,
) -> None:
    """Migrate the database of a connection. If ``whole`` is given, it opens the transaction in
    which the migration runs. Raises `DatabaseTooNew` and `MigrationFailed`."""
    keys = await MigrationRecorder(connection).applied_migrations()
    pending = pending_migrations([key.name for key in keys if key.app_label == APP], "the database")
    if not pending:
        return
    try:
        async with whole("default") if whole else nullcontext(connection) as migrated:
            await _migrate(migrated)
    except Exception as error:
        raise MigrationFailed(
            f"the database could not be brought to {pending[-1]}: {explain(str(error))}. "
            "Nothing in it was changed; mend the cause and start again."
        ) from error


async def _migrate(connection: BaseDBAsyncClient) -> None:
    await MigrationExecutor(connection, APPS).migrate(direction="forward")
