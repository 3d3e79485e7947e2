"""Finds and drops the bot's tables on a server, to make place for the tables of a backup."""

from collections.abc import Sequence

from nekro_core.store.engine import DatabaseEngine
from nekro_core.store.search_triggers import TRIGGER_FUNCTION
from nekro_core.store.upgrade import APP

_MIGRATIONS = "tortoise_migrations"


async def own_tables(engine: DatabaseEngine) -> Sequence[str]:
    """Return the names of the bot's tables that a PostgreSQL database has. Raises
    `StoreUnavailable`."""
    from tortoise import Model  # noqa: PLC0415 - 0.2 s, and only a restore needs it

    from nekro_core.store import models  # noqa: PLC0415 - as above

    rows = await engine.read(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()", ()
    )
    kinds = [each for each in vars(models).values() if isinstance(each, type)]
    own = {
        each._meta.db_table  # noqa: SLF001 (Tortoise's own name)
        for each in kinds
        if issubclass(each, Model) and each is not Model
    }
    return sorted({row["table_name"] for row in rows} & {*own, _MIGRATIONS})


async def newest_own_migration(engine: DatabaseEngine) -> str:
    """Return the name of the newest migration of the bot's tables. Raises `StoreUnavailable`."""
    rows = await engine.read(
        f"SELECT COALESCE(MAX(name), '') AS name FROM {_MIGRATIONS} WHERE app = ?", (APP,)
    )
    return str(rows[0]["name"])


async def drop_tables(engine: DatabaseEngine, tables: Sequence[str]) -> None:
    """Drop tables and the function of their triggers in one transaction. If one of them cannot be
    dropped, none is dropped. Raises `StoreError`."""
    statements = [f'DROP TABLE "{each}"' for each in tables]
    statements.append(f"DROP FUNCTION IF EXISTS {TRIGGER_FUNCTION}()")
    await engine.commit([(each, ()) for each in statements])
