"""Brings a database's tables up to date, or refuses a database of a newer version of the bot.

A SQLite file is copied, the copy is migrated, and the copy then replaces the original. The original
is moved to ``copies/``. The copy is needed because Tortoise ORM, the library that runs the
migrations, commits changes of tables at once and records the migration only afterwards. So if a
process were killed in between, it would leave tables that no version of the bot can use. On
PostgreSQL all migrations run in one transaction. There, the operator must make the backups.

In a new file the tables are created by `new_tables.sql`, in 10 ms instead of half a second. Tests
check that this file, the models, and all migrations together lead to the same tables. `python -m
tests.store.new_tables` writes the file anew.
"""

import os
import pkgutil
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from anyio import to_thread

from nekro_core.store import migrations
from nekro_core.store.engine import explain
from nekro_core.store.errors import DatabaseTooNew, MigrationFailed, StoreUnavailable
from nekro_core.store.search_triggers import trigger_statements

NEW_TABLES = "new_tables.sql"
APP = "store"
"""The name of the bot's tables in the table of migrations."""
_COMPATIBLE = "_compatible"
"""The ending of the name of a migration that earlier versions can work with. The name is stored in
the database, so an earlier version can read it without knowing the migration. See
`nekro_core.store.migrations`."""


def known_migrations() -> list[str]:
    """Return the names of this version's migrations, oldest first."""
    return sorted(module.name for module in pkgutil.iter_modules(migrations.__path__))


def newest_migration(path: Path) -> str:
    """Return the newest migration that was applied to a SQLite file; empty if there is none. This
    function blocks. Raises `StoreUnavailable`."""
    return max(_applied_in_file(path) or [""])


async def upgrade_file(path: Path, *, copies: int, clock: Callable[[], float]) -> None:
    """Create or migrate a SQLite file. ``copies`` is the number of earlier files to keep.

    Raises `DatabaseTooNew`, `MigrationFailed` and `StoreUnavailable`. After one of these errors the
    file is unchanged.
    """
    applied = await to_thread.run_sync(_applied_in_file, path)
    pending = pending_migrations(applied or [], str(path))
    if not pending:
        return
    fresh = path.with_name(f"{path.name}.new")
    try:
        await to_thread.run_sync(_copy_database, path, fresh)
        if applied is None:
            await to_thread.run_sync(_make_file, fresh)
        else:
            # The import of Tortoise and the models takes 0.2 s and 9 MiB. It is done here, because
            # few starts of the bot migrate a file.
            from nekro_core.store.migrate import migrate_file  # noqa: PLC0415

            await migrate_file(fresh)
        await to_thread.run_sync(_take_place, path, fresh, pending[0], copies, clock())
    except Exception as error:
        raise MigrationFailed(
            f"{path.name} could not be brought to {pending[-1]}: {explain(str(error))}. "
            "It is unchanged; mend the cause and start again."
        ) from error


def is_compatible(migration: str) -> bool:
    """Return True if the version before a migration can work with the tables after it."""
    return migration.endswith(_COMPATIBLE)


def pending_migrations(applied: list[str], where: str, *, shared: bool = False) -> list[str]:
    """Return the migrations that a database lacks. ``where`` names it in the error.

    Raises `DatabaseTooNew` if the database has migrations that this version does not know. With
    ``shared``, other processes may use the database, perhaps of a newer version. Then unknown
    migrations are accepted if the name of each of them says that this version can work with it. The
    error names those that do not say so.
    """
    known = known_migrations()
    pending = [name for name in known if name not in applied]
    refused = [name for name in applied if name not in known]
    if shared and not pending:
        refused = [name for name in refused if not is_compatible(name)]
    if refused:
        raise DatabaseTooNew(
            f"{where} was written by a newer version: it has {', '.join(refused)}, this version "
            f"ends at {known[-1]}. Install the newer version again, or put back the copy from "
            "before its migration (folder 'copies' beside the database)."
        )
    return pending


def _applied_in_file(path: Path) -> list[str] | None:
    """Return the migrations that were applied to a file; None if the file is missing or empty."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    try:
        with closing(sqlite3.connect(path)) as database:
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            if not tables:
                return None
            if ("tortoise_migrations",) not in tables:
                raise StoreUnavailable(
                    f"{path.name} holds other tables than the bot's: name another file in "
                    "NEKRO_DATABASE_URL"
                )
            rows = database.execute("SELECT name FROM tortoise_migrations WHERE app = ?", (APP,))
            return [name for (name,) in rows]
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path.name}: {explain(str(error))}") from error


def new_tables(now: datetime) -> str:
    """Return the SQL that makes all tables in an empty SQLite database, as if all migrations had
    been applied at ``now``."""
    rows = ", ".join(f"('{APP}', '{name}', '{now}')" for name in known_migrations())
    applied = f"INSERT INTO tortoise_migrations (app, name, applied_at) VALUES {rows}"
    return ";\n".join([_tables(), *trigger_statements("sqlite"), applied])


@cache
def _tables() -> str:
    return (files(__package__) / NEW_TABLES).read_text("utf-8").rstrip("; \n")


def _make_file(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        # The writes need not be synced to the disk now, because the file is synced before it
        # replaces the original.
        database.executescript(
            "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; "
            f"BEGIN; {new_tables(datetime.now(UTC))}; COMMIT"
        )


def _copy_database(path: Path, fresh: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in _files(fresh):
        name.unlink(missing_ok=True)
    if not path.exists():
        return
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(fresh)) as target:
        source.backup(target)


def _take_place(path: Path, fresh: Path, first: str, copies: int, now: float) -> None:
    if leftovers := [name.name for name in _files(fresh)[1:] + _files(path)[1:] if name.exists()]:
        # SQLite removes these files when the last program closes the database. If they exist,
        # another program has the database open.
        raise OSError(f"another program has the database open ({', '.join(leftovers)})")
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    if path.exists() and path.stat().st_size:
        folder = path.parent / "copies"
        folder.mkdir(exist_ok=True)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        copy = folder / f"{path.stem}-{stamp}-before-{first}{path.suffix}"
        copy.unlink(missing_ok=True)
        try:
            copy.hardlink_to(path)
        except OSError:  # The file system has no hard links.
            shutil.copy2(path, copy)
        kept = sorted(folder.glob(f"{path.stem}-*-before-*{path.suffix}"))
        for old in kept[:-copies]:
            old.unlink()
    fresh.replace(path)
    folder_file = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder_file)
    finally:
        os.close(folder_file)


def _files(path: Path) -> list[Path]:
    return [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]
