"""Copies and restores PostgreSQL databases with ``pg_dump`` and ``pg_restore``."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nekro_core.backup.errors import BackupRefused, InvalidBackup, RestoreRefused

_LOOK_S = 0.2
_ENDS_S = 10.0
_SAID = 2000
_ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}


def dump_postgres(
    url: str, target: Path, done: Callable[[int], None], *, left_out: Sequence[str] = ()
) -> None:
    """Write the database into a file, in PostgreSQL's custom format, and check that pg_restore can
    list its contents. The rows of the tables ``left_out`` are not written. The bot may use the
    database meanwhile. The file appears when it is whole: it is first written under another name,
    ``target`` with the ending ``.part``, and a part is removed if this call fails. ``done`` is
    called with the number of bytes written so far; it may raise. Raises `BackupRefused`."""
    database, environment, schema = _connection(url)
    program = _found("pg_dump", BackupRefused)
    choice = [f"--schema={schema}"] if schema else []
    part = target.with_name(f"{target.name}.part")
    try:
        said = _run(
            [
                program,
                "--format=custom",
                "--no-owner",
                "--no-privileges",
                *choice,
                *(f"--exclude-table-data=*.{table}" for table in left_out),
                f"--file={part}",
                database,
            ],
            environment,
            lambda: done(part.stat().st_size if part.exists() else 0),
        )
        if said is not None:
            raise BackupRefused(f"pg_dump could not copy the database: {said}")
        problem = _listed(part, BackupRefused)
        if problem is not None:
            raise BackupRefused(f"pg_restore cannot read what pg_dump wrote: {problem}")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check_dump(path: Path) -> None:
    """Check that ``pg_restore`` can list the contents of a file. Raises `InvalidBackup`, and
    `RestoreRefused` if pg_restore is missing."""
    problem = _listed(path, RestoreRefused)
    if problem is not None:
        raise InvalidBackup(f"the database in the backup cannot be read by pg_restore: {problem}")


def restore_postgres(url: str, dump: Path, done: Callable[[int], None]) -> None:
    """Write the tables of a dump into a database that does not have them, in one transaction: if it
    fails, nothing is changed. Raises `RestoreRefused`."""
    database, environment, _ = _connection(url)
    program = _found("pg_restore", RestoreRefused)
    said = _run(
        [
            program,
            "--no-owner",
            "--no-privileges",
            "--single-transaction",
            "--exit-on-error",
            f"--dbname={database}",
            str(dump),
        ],
        environment,
        lambda: done(0),
    )
    if said is not None:
        raise RestoreRefused(f"pg_restore could not write the database: {said}")


def require_programs() -> None:
    """Check that ``pg_dump`` and ``pg_restore`` are installed, which a restore needs. Raises
    `RestoreRefused`."""
    for program in ("pg_dump", "pg_restore"):
        _found(program, RestoreRefused)


def _connection(url: str) -> tuple[str, Mapping[str, str], str]:
    """Return the name of the database, the environment for PostgreSQL's programs, and the schema.
    The password is in the environment, since other users see the arguments of a process."""
    # This import loads Tortoise. A bot with a SQLite file does not need it.
    from tortoise.backends.base.config_generator import expand_db_url  # noqa: PLC0415

    credentials: dict[str, Any] = expand_db_url(url)["credentials"]
    own = {
        variable: str(credentials[name])
        for name, variable in _ENVIRONMENT.items()
        if credentials.get(name)
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return str(credentials["database"]), kept | own, str(credentials.get("schema") or "")


def _found(program: str, kind: type[BackupRefused] | type[RestoreRefused]) -> str:
    path = shutil.which(program)
    if path is None:
        raise kind(
            f"{program} is not installed here, and the database is on PostgreSQL: install the "
            "client programs (on Debian: apt-get install postgresql-client)"
        )
    return path


def _listed(path: Path, kind: type[BackupRefused] | type[RestoreRefused]) -> str | None:
    return _run([_found("pg_restore", kind), "--list", str(path)], {}, lambda: None)


def _run(
    command: Sequence[str], environment: Mapping[str, str], look: Callable[[], None]
) -> str | None:
    """Run a program to its end, and call ``look`` repeatedly meanwhile. Return None if the program
    succeeded, and its error output if it failed. If ``look`` raises an error, the program is
    ended."""
    with (
        tempfile.TemporaryFile() as said_file,  # a full pipe would block the program
        subprocess.Popen(  # noqa: S603 (our own arguments)
            command,
            env=dict(environment) or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said_file,
        ) as process,
    ):
        try:
            while process.poll() is None:
                look()
                time.sleep(_LOOK_S)
        except BaseException:
            process.terminate()
            try:
                process.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        said_file.seek(0)
        said = said_file.read().decode(errors="replace").strip()
    return None if process.returncode == 0 else said[-_SAID:] or f"status {process.returncode}"
