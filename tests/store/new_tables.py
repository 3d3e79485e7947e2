"""Writes ``nekro_core/store/new_tables.sql``, which has the tables of a new SQLite file, from the
database models. Run ``python -m tests.store.new_tables``."""

import asyncio
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from tortoise.context import TortoiseContext
from tortoise.migrations.recorder import MigrationRecorder
from tortoise.migrations.schema_editor import SqliteSchemaEditor

from nekro_core.store import models as models_module
from nekro_core.store.migrate import configuration
from nekro_core.store.upgrade import NEW_TABLES

PLACE = Path(models_module.__file__).parents[1] / NEW_TABLES
HEAD = """\
-- The tables of a new SQLite file. Do not edit: `python -m tests.store.new_tables` writes this file
-- from the models in the folder models. The triggers are in search_triggers.py.
"""


async def sql_of_models() -> str:
    """Make the tables with Tortoise, and return the SQL that SQLite stored for them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tables.sqlite3"
        async with TortoiseContext() as context:
            await context.init(configuration("tortoise.backends.sqlite", {"file_path": str(path)}))
            await context.generate_schemas()
            connection = context.db()
            editor = SqliteSchemaEditor(connection, atomic=False)
            await MigrationRecorder(connection).ensure_schema(editor)
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute(
                "SELECT sql FROM sqlite_master "
                "WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
            ).fetchall()
    # Tortoise writes the docstrings of the models as comments.
    statements = [re.sub(r" */\*.*?\*/", "", sql, flags=re.DOTALL) for (sql,) in rows]
    return HEAD + "".join(f"{sql};\n" for sql in statements)


if __name__ == "__main__":
    PLACE.write_text(asyncio.run(sql_of_models()), "utf-8")
