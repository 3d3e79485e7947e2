"""Tries the migration of a new version on a copy of the database, while the bot runs."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio

from nekro_core.app.upgrade.checks import check_space
from nekro_core.app.upgrade.environment import UpgradeRefused
from nekro_core.backup.errors import BackupError
from nekro_core.backup.postgres_copy import dump_postgres, restore_postgres
from nekro_core.store.errors import StoreError
from nekro_core.store.file_copy import copy_sqlite

_MIGRATION_S = 3600.0
"""Maximum number of seconds for the migration of the copy."""
_COPIES = 3
"""The copy of a SQLite file needs at most this many times its size: the copy, the file that its
migration makes, and what the migration writes meanwhile."""
_ANSWERS_S = 60.0
"""Seconds in which a version without a migration must answer. It usually takes 3 s."""
_SLOWER = 3.0
"""The migration gets this many times as long as on the copy. Then the bot had ended a moment
before, the disk may be slower, and other programs may work."""
_SAID = 2000
_PREFIX = ".upgrade-"
DATABASE_URL = "NEKRO_DATABASE_URL"


class NotTried(UpgradeRefused):
    """A copy of the database cannot be made. The text says why."""


@contextmanager
def copy_of_file(database: Path) -> Iterator[str]:
    """Copy a SQLite file into a folder beside it. Yields the URL of the copy. Raises
    `UpgradeRefused`, also if the copy could fill the disk."""
    _remove_leftovers(database.parent)
    check_space(database.parent, _COPIES * _size(database))
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=database.parent) as folder:
        copy = Path(folder) / database.name
        try:
            copy_sqlite(database, copy, lambda *_: None)
        except (StoreError, OSError) as error:
            raise UpgradeRefused(f"the database cannot be copied: {error}") from None
        yield f"sqlite://{copy}"


@contextmanager
def copy_on_server(url: str, data: Path, *, say: Callable[[str], None]) -> Iterator[str]:
    """Copy the tables on a PostgreSQL server into a new database there, which is dropped at the
    end. The dump goes into the data folder, because a folder for temporary files is often in
    memory. Yields the URL of the copy. Raises `NotTried`, for example if the bot may not make
    databases there, and `UpgradeRefused` if the dump could fill the disk. If the copy cannot be
    dropped, this is only said: what the trial found counts."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_leftovers(data)
    # The dump is compressed, so it is smaller.
    check_space(data, int(_on_server(url, "SELECT pg_database_size(current_database())")))
    name = f"nekro_upgrade_{token_hex(4)}"
    _on_server(url, f'CREATE DATABASE "{name}"')
    try:
        parts = urlsplit(url)
        copy = urlunsplit(parts._replace(path=f"/{name}"))
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=data) as folder:
            dump = Path(folder) / "dump"
            try:
                dump_postgres(url, dump, lambda _: None)
                restore_postgres(copy, dump, lambda _: None)
            except BackupError as error:
                raise NotTried(str(error)) from None
        yield copy
    finally:
        try:
            # FORCE: the new version may have left a connection.
            _on_server(url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        except NotTried as error:
            say(f"{error}. Drop the database {name} there yourself: it has a copy of all messages")


def try_migration(python: Path, copy_url: str) -> str:
    """Let a new version migrate a copy of the database. Return what it says about it. Raises
    `UpgradeRefused` if it cannot."""
    environment = {**os.environ, DATABASE_URL: copy_url}
    # Without -P, Python would import the code of this folder, which can be the old version.
    command = [str(python), "-P", "-m", "nekro_core", "upgrade", "--check-database"]
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=_MIGRATION_S,
        )
    except subprocess.TimeoutExpired:
        raise UpgradeRefused(
            f"the migration of the copy was not finished within {_MIGRATION_S:g} s"
        ) from None
    if done.returncode:
        raise UpgradeRefused(
            f"the new version cannot use a copy of the database: {done.stderr.strip()[-_SAID:]}"
        )
    return done.stdout.strip()


def seconds_to_answer(given: float | None, trial_s: float) -> float:
    """Return within how many seconds the new version must answer: what the operator gave, or else
    enough for a migration that took ``trial_s`` seconds on the copy."""
    return given if given is not None else _ANSWERS_S + _SLOWER * trial_s


def _remove_leftovers(folder: Path) -> None:
    """Remove the copy of a trial that was killed."""
    for each in folder.glob(f"{_PREFIX}*"):
        shutil.rmtree(each, ignore_errors=True)


def _size(database: Path) -> int:
    """Return the size of a SQLite file in bytes, with its log."""
    log = database.with_name(f"{database.name}-wal")
    return database.stat().st_size + (log.stat().st_size if log.exists() else 0)


def _on_server(url: str, statement: str) -> Any:
    """Run a statement that must not be in a transaction. Return the first value of its answer.
    Raises `NotTried`."""
    try:
        import asyncpg  # noqa: PLC0415 - an extra
        from tortoise.backends.base.config_generator import expand_db_url  # noqa: PLC0415 - only here
    except ModuleNotFoundError as error:
        raise NotTried(f"{error.name} is missing: pip install 'nekro-core[postgres]'") from None
    credentials = expand_db_url(url)["credentials"]

    async def run() -> Any:
        connection = await asyncpg.connect(
            host=credentials["host"],
            port=credentials["port"],
            user=credentials["user"],
            password=credentials["password"],
            database=credentials["database"],
            ssl=credentials.get("ssl"),
        )
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    try:
        return anyio.run(run)
    except (asyncpg.PostgresError, OSError) as error:
        what = statement.partition(' "')[0].partition("(")[0]
        raise NotTried(f"{what} on the server failed: {error}") from None
