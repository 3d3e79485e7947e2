"""Copies SQLite files while other programs write to them, and checks the copies."""

import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from nekro_core.store.engine import explain
from nekro_core.store.errors import StoreUnavailable

_HEADER = b"SQLite format 3\0"
_PAGES = 512
"""Number of SQLite pages that one step copies: 2 MiB. The copying can be stopped between two
steps."""
_BUSY_S = 10.0


def is_sqlite(path: Path) -> bool:
    """Return whether a file begins as an SQLite database does. Raises `OSError`."""
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER


def copy_sqlite(
    source: Path,
    target: Path,
    done: Callable[[int, int], None],
    *,
    left_out: Collection[str] = (),
) -> None:
    """Copy a database to a new file, and check the copy.

    The copy has the content that the database had at one moment. The bot's databases have a
    write-ahead log, so other programs can write while the copy is made. The source is read in one
    transaction. Otherwise SQLite would begin the copy again after each write of another program. If
    a database has no write-ahead log, writers wait until the copy is made.

    The tables ``left_out`` are empty in the copy, and its file contains none of their old data.

    ``done`` is called with two numbers: the bytes that are copied so far, and all bytes. It may
    raise. Raises `StoreUnavailable` if the database cannot be read or is damaged.
    """
    address = f"file:{quote(str(source.absolute()))}?mode=rw"
    try:
        with (
            closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as database,
            closing(sqlite3.connect(target)) as copy,
        ):
            database.isolation_level = None
            (size,) = database.execute("PRAGMA page_size").fetchone()
            database.execute("BEGIN")
            database.execute("PRAGMA user_version").fetchone()  # The first read takes the snapshot.
            database.backup(
                copy,
                pages=_PAGES,
                progress=lambda _, left, total: done((total - left) * size, total * size),
                sleep=0,
            )
            database.execute("ROLLBACK")
            # Make the copy a single file, without a write-ahead log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.execute("PRAGMA secure_delete = ON")
            for table in left_out:
                if copy.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                    copy.execute(f'DELETE FROM "{table}"')
            copy.commit()
            problem = _integrity(copy)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{source.name} cannot be copied: {explain(str(error))}") from error
    if problem:
        raise StoreUnavailable(
            f"{source.name} is damaged ({problem}): a backup of it would be too. Put back an older "
            "backup, or a copy from the folder 'copies'"
        )


def integrity_problem(path: Path) -> str:
    """Check a database with ``PRAGMA integrity_check``. No program may write to the database at the
    same time. Return what is wrong with the database; empty if nothing is wrong."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            return _integrity(database)
    except sqlite3.Error as error:
        return str(error)


def write_log_back(path: Path) -> None:
    """Write the content of a database's write-ahead log into the database file. No program may use
    the database. Raises `sqlite3.Error`."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def count_newer_messages(before: Path, after: Path) -> int:
    """Count the messages of the database ``after`` that are newer than all messages of ``before``,
    which is an older state of the same database. Returns 0 if one of the files cannot be read."""
    newest = "SELECT COALESCE(MAX(seq), 0) FROM messages"
    address = f"file:{quote(str(before.absolute()))}?mode=ro&immutable=1"
    try:
        with (
            closing(sqlite3.connect(address, uri=True)) as old,
            closing(sqlite3.connect(after)) as new,
        ):
            (last,) = old.execute(newest).fetchone()
            query = "SELECT COUNT(*) FROM messages WHERE seq > ?"
            return int(new.execute(query, (last,)).fetchone()[0])
    except sqlite3.Error:
        return 0


def _integrity(database: sqlite3.Connection) -> str:
    rows = [str(row[0]) for row in database.execute("PRAGMA integrity_check(5)")]
    return "" if rows == ["ok"] else "; ".join(rows)
