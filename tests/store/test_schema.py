"""Migrations make the same tables as the database models (the classes that describe the tables to
Tortoise), and a database of a newer version is refused."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tortoise.context import TortoiseContext

from nekro_core.store import (
    DatabaseTooNew,
    MigrationFailed,
    Store,
    StoreSettings,
    StoreUnavailable,
)
from nekro_core.store import models as models_module
from nekro_core.store.migrate import configuration, upgrade_connection
from nekro_core.store.upgrade import known_migrations

from .conftest import GROUP, Clock, say
from .new_tables import PLACE, sql_of_models


def schema(path: Path) -> dict[str, str]:
    """The name and the normalized SQL of every table and index, including indexes of unique
    keys."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        found = {}
        for kind, name, table, sql in rows:
            if name == "sqlite_sequence":
                continue
            if kind == "index" and sql is not None:
                found[f"index {name}"] = sql
            elif kind == "index":
                columns = database.execute("SELECT name FROM pragma_index_info(?)", (name,))
                unique = database.execute(
                    "SELECT `unique` FROM pragma_index_list(?) WHERE name = ?", (table, name)
                ).fetchone()
                found[f"index of {table} on {columns.fetchall()}"] = f"unique: {unique[0]}"
            else:
                plain = re.sub(r"/\*.*?\*/", "", sql, flags=re.DOTALL)
                # SQLite writes a space before the comma of a column that was added later.
                found[f"table {name}"] = re.sub(r" (?=[,)])", "", " ".join(plain.split()))
        return found


def applied(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name FROM tortoise_migrations ORDER BY id")
        return [name for (name,) in rows]


async def test_migrations_lead_to_the_schema_of_the_database_models(tmp_path: Path) -> None:
    """On SQLite, Tortoise's AlterField and RemoveField rebuild a table and silently drop its unique
    keys and indexes. This test fails if a migration does not make them again."""
    async with TortoiseContext() as context:
        where = {"file_path": str(tmp_path / "migrated.sqlite3")}
        await context.init(configuration("tortoise.backends.sqlite", where))
        await upgrade_connection(context.db())
    async with Store.open(f"sqlite://{tmp_path}/fresh.sqlite3"):
        pass
    migrated, fresh = tmp_path / "migrated.sqlite3", tmp_path / "fresh.sqlite3"
    assert schema(migrated) == schema(fresh)
    assert applied(migrated) == applied(fresh) == known_migrations()
    assert sum("unique: 1" in text for text in schema(fresh).values()) >= 10


async def test_a_new_database_file_has_the_tables_of_the_database_models() -> None:
    assert PLACE.read_text("utf-8") == await sql_of_models(), "python -m tests.store.new_tables"


def test_no_docstring_of_a_database_model_contains_a_semicolon() -> None:
    models = [v for v in vars(models_module).values() if hasattr(v, "_meta")]
    assert models
    assert [model.__name__ for model in models if ";" in (model.__doc__ or "")] == []


async def test_a_database_of_a_newer_version_is_refused_and_untouched(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with Store.open(sqlite_url) as store:
        await say(store)
    path = tmp_path / "nekro.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "INSERT INTO tortoise_migrations (app, name, applied_at) VALUES ('store', '9999_x', '')"
        )
    before = path.read_bytes()
    with pytest.raises(DatabaseTooNew, match=r"9999_x.*Install the newer version"):
        async with Store.open(sqlite_url):
            pass
    assert path.read_bytes() == before


async def test_a_migration_keeps_a_copy_and_deletes_old_copies(
    tmp_path: Path, sqlite_url: str
) -> None:
    """The database is older than the first migration. Its table ``old`` identifies the copy
    later."""
    clock = Clock()
    path = tmp_path / "nekro.sqlite3"
    for day in range(4):
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE tortoise_migrations (id INTEGER, app, name, applied_at)")
            database.execute("CREATE TABLE old AS SELECT ? AS day", (day,))
        clock.now += 86_400
        async with Store.open(sqlite_url, StoreSettings(copies=2), clock=clock) as store:
            await say(store)
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("SELECT day FROM old").fetchall() == [(day,)]
    copies = sorted((tmp_path / "copies").iterdir())
    assert [copy.name for copy in copies] == [
        f"nekro-197001{day:02}-001640-before-{known_migrations()[0]}.sqlite3" for day in (4, 5)
    ]
    with closing(sqlite3.connect(copies[-1])) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        assert tables == {"tortoise_migrations", "old"}


async def test_a_killed_migration_does_not_change_the_database_file(
    tmp_path: Path, sqlite_url: str
) -> None:
    """A process that dies during a migration leaves only an incomplete copy beside the file."""
    async with Store.open(sqlite_url) as store:
        await say(store, "kept")
    (tmp_path / "nekro.sqlite3.new").write_bytes(b"half a database")
    async with Store.open(sqlite_url) as store:
        assert [r.segments for r in await store.messages.newest(GROUP, 10)]


async def test_a_failing_migration_says_so_and_changes_nothing(
    tmp_path: Path, sqlite_url: str
) -> None:
    path = tmp_path / "nekro.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE tortoise_migrations (app, name, applied_at)")
        database.execute("CREATE TABLE messages (something TEXT)")
    before = path.read_bytes()
    with pytest.raises(MigrationFailed, match=r"messages.*unchanged"):
        async with Store.open(sqlite_url):
            pass
    assert path.read_bytes() == before


async def test_a_database_of_another_program_is_refused(tmp_path: Path, sqlite_url: str) -> None:
    with closing(sqlite3.connect(tmp_path / "nekro.sqlite3")) as database, database:
        database.execute("CREATE TABLE photos (id)")
    with pytest.raises(StoreUnavailable, match="other tables"):
        async with Store.open(sqlite_url):
            pass


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "nekro.sqlite3").write_bytes(b"<html>" * 1000)
    with pytest.raises(StoreUnavailable, match="no SQLite database"):
        async with Store.open(sqlite_url):
            pass


@pytest.mark.parametrize("bad", ["nonsense", "mango://x", "sqlite://"])
async def test_a_malformed_url_is_explained(bad: str) -> None:
    with pytest.raises(StoreUnavailable, match="NEKRO_DATABASE_URL"):
        async with Store.open(bad):
            pass


async def test_a_database_in_memory_works_without_a_file() -> None:
    async with Store.open("sqlite://:memory:") as store:
        await say(store)
        assert len(await store.messages.newest(GROUP, 10)) == 1
