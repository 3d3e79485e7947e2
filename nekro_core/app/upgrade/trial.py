"""Tries the migration of a new version on a copy of the database, while the bot runs."""

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import anyio
import anyio.from_thread

from nekro_core.app.upgrade.checks import check_space
from nekro_core.app.upgrade.programs import UpgradeRefused, run_program
from nekro_core.backup.errors import BackupError
from nekro_core.backup.postgres_copy import dump_postgres, restore_postgres
from nekro_core.store.engines import connections_query, own_databases_query
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
"""The migration of the real database may take this many times as long as that of the copy. It runs
at another time: the disk may be slower by then, and other programs may be busy."""
_PREFIX = ".upgrade-"
_LOCK = f"{_PREFIX}lock"
"""The file that a trial locks, in the folder of its copy or dump. It is removed at the end."""
_COPY_NAME = re.compile(r"nekro_upgrade_[0-9a-f]{8}_(?P<seconds>[0-9]{1,12})_[0-9a-f]{8}")
_ABANDONED_S = 600.0
"""A copy on a server that was made more than this many seconds ago, and to which nobody is
connected, was left behind by a trial that was killed. A trial that runs connects to its copy just
after it has made it, and stays connected."""
DATABASE_URL = "NEKRO_DATABASE_URL"


class NotTried(UpgradeRefused):
    """A copy of the database cannot be made. The text says why."""


@contextmanager
def copy_of_file(database: Path) -> Iterator[str]:
    """Copy a SQLite file into a folder beside it. Yields the URL of the copy. Raises
    `UpgradeRefused`, also if the copy could fill the disk or another trial runs."""
    with _only_trial(database.parent):
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
def copy_on_server(
    url: str, data: Path, *, say: Callable[[str], None], now: float
) -> Iterator[str]:
    """Copy the tables on a PostgreSQL server into a new database there, which is dropped at the
    end. The dump goes into the data folder, because a folder for temporary files is often in
    memory. Yields the URL of the copy. Raises `NotTried`, for example if the bot may not make
    databases there, and `UpgradeRefused` if the dump could fill the disk or another trial runs. If
    the copy cannot be dropped, ``say`` tells the operator, and no error is raised: the trial itself
    was made."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _only_trial(data):
        _remove_leftovers(data)
        # The dump is compressed, so it is smaller.
        check_space(data, int(_on_server(url, "SELECT pg_database_size(current_database())")))
        _drop_abandoned_copies(url, now, say)
        name = f"{_copies_of(url)}{int(now)}_{token_hex(4)}"
        _on_server(url, f'CREATE DATABASE "{name}"')
        try:
            copy = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
            with _connected(copy):
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
                say(
                    f"{error}. Drop the database {name} there yourself: it has a copy of all "
                    "messages"
                )


def try_migration(python: Path, copy_url: str) -> str:
    """Let a new version migrate a copy of the database. Return what the new version prints about
    the migration. Raises `UpgradeRefused` if it cannot use the copy."""
    # Without -P, Python would import the code of this folder, which can be the old version.
    return run_program(
        [str(python), "-P", "-m", "nekro_core", "upgrade", "--check-database"],
        _MIGRATION_S,
        failed="the new version cannot use a copy of the database",
        late="the migration of the copy",
        changed={DATABASE_URL: copy_url},
    ).strip()


def seconds_to_answer(given: float | None, trial_s: float) -> float:
    """Return within how many seconds the new version must answer: what the operator gave, or else
    enough for a migration that took ``trial_s`` seconds on the copy."""
    return given if given is not None else _ANSWERS_S + _SLOWER * trial_s


@contextmanager
def _only_trial(folder: Path) -> Iterator[None]:
    """Hold a lock of the folder until the block ends, so that a second trial does not remove the
    copy of one that runs. The lock of a killed process is free. Raises `UpgradeRefused`."""
    path = folder / _LOCK
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                break  # Otherwise an earlier trial has removed the file meanwhile.
        except BlockingIOError:
            os.close(file)
            raise UpgradeRefused(
                f"another `nekro upgrade` tries a migration in {folder} now: wait until it has "
                "ended"
            ) from None
        os.close(file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def _remove_leftovers(folder: Path) -> None:
    """Remove the copy of a trial that was killed."""
    for each in folder.glob(f"{_PREFIX}*"):
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)


def _copies_of(url: str) -> str:
    """Return the beginning of the names of all copies of a database on its server. Another bot on
    the same server has another database or another schema."""
    parts = urlsplit(url)
    schema = parse_qs(parts.query).get("schema", [""])[-1]
    whose = hashlib.blake2b(f"{parts.path}?{schema}".encode(), digest_size=4).hexdigest()
    return f"nekro_upgrade_{whose}_"


def _drop_abandoned_copies(url: str, now: float, say: Callable[[str], None]) -> None:
    """Drop the copies that killed trials of this database left on the server."""
    found = _on_server(url, own_databases_query(_copies_of(url)))
    for name in found or ():
        made = _COPY_NAME.fullmatch(name)
        if made is None or now - int(made["seconds"]) < _ABANDONED_S:
            continue
        try:
            if _on_server(url, connections_query(name)):
                continue  # A trial of another data folder uses it.
            # Without FORCE: such a trial may have connected just now.
            _on_server(url, f'DROP DATABASE IF EXISTS "{name}"')
        except NotTried as error:
            say(f"{error}. The database {name} was left behind by an earlier upgrade")
        else:
            say(f"dropped the database {name}, which an earlier upgrade left behind")


def _size(database: Path) -> int:
    """Return the size of a SQLite file in bytes, with its log."""
    log = database.with_name(f"{database.name}-wal")
    return database.stat().st_size + (log.stat().st_size if log.exists() else 0)


@contextmanager
def _connected(url: str) -> Iterator[None]:
    """Stay connected to a database on a server until the block ends, so that other processes see
    that the database is in use. Raises `NotTried`."""
    with anyio.from_thread.start_blocking_portal() as portal:
        try:
            connection = portal.call(_connect, url)
        except _failures() as error:
            raise NotTried(f"the copy on the server cannot be reached: {error}") from None
        try:
            yield
        finally:
            portal.call(connection.terminate)


def _on_server(url: str, statement: str) -> Any:
    """Run a statement that must not be in a transaction. Return the first value of its answer.
    Raises `NotTried`."""

    async def run() -> Any:
        connection = await _connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    try:
        return anyio.run(run)
    except _failures() as error:
        what = statement.partition(' "')[0].partition("(")[0]
        raise NotTried(f"{what} on the server failed: {error}") from None


async def _connect(url: str) -> Any:
    """Return a connection of asyncpg."""
    import asyncpg  # noqa: PLC0415 - an extra
    from tortoise.backends.base.config_generator import expand_db_url  # noqa: PLC0415 - only here

    credentials = expand_db_url(url)["credentials"]
    return await asyncpg.connect(
        host=credentials["host"],
        port=credentials["port"],
        user=credentials["user"],
        password=credentials["password"],
        database=credentials["database"],
        ssl=credentials.get("ssl"),
    )


def _failures() -> tuple[type[Exception], ...]:
    """Return the errors with which a statement on the server fails. Raises `NotTried` if a library
    is missing."""
    try:
        import asyncpg  # noqa: PLC0415 - an extra
        import tortoise  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise NotTried(f"{error.name} is missing: pip install 'nekro-core[postgres]'") from None
    return (asyncpg.PostgresError, OSError)
