"""Keeps the database as it is before a new version starts, and puts it back.

A SQLite file is kept by a second name: a migration replaces the file and does not change it, so the
second name costs no copy and no time. If the new version had no migration, both names are still
the same file afterwards, and nothing needs to be put back: what came in meanwhile stays. The tables
on a PostgreSQL server are kept as a dump.
"""

import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

_ENDINGS = ("", "-wal", "-shm")


class KeptFile:
    """A SQLite file, as it was before the new version started. No program may have it open when
    this object is made, and when the file is put back."""

    def __init__(self, database: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._kept = database.with_name(f"{database.name}-before-upgrade")
        self._kept.unlink(missing_ok=True)
        if database.with_name(f"{database.name}-wal").exists():
            from nekro_core.store.file_copy import write_log_back  # noqa: PLC0415 - seldom needed

            write_log_back(database)
        self._number = database.stat().st_ino
        try:
            self._kept.hardlink_to(database)
        except OSError:  # The file system has no hard links.
            shutil.copy2(database, self._kept)

    def put_back(self) -> str:
        """Put the file back if the new version replaced it. Return what the operator should know;
        empty if there is nothing. Raises `OSError`."""
        if self._database.stat().st_ino == self._number:
            self.forget()
            return ""
        # The database in use is moved away only if there is one to put in its place. An erasure
        # deletes what was kept.
        self._kept.stat()
        folder = self._database.parent / "copies"
        folder.mkdir(exist_ok=True)
        stamp = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%d-%H%M%S")
        name = f"{self._database.stem}-{stamp}-of-failed-upgrade{self._database.suffix}"
        from nekro_core.store.file_copy import count_newer_messages  # noqa: PLC0415 - only after a failure

        newer = count_newer_messages(self._kept, self._database)
        for ending in _ENDINGS:
            part = self._database.with_name(self._database.name + ending)
            if part.exists():
                part.replace(folder / (name + ending))
        for copy in folder.iterdir():
            # The migration kept the same file as a copy. It will be written to again, so it is no
            # copy any more.
            if copy.samefile(self._kept):
                copy.unlink()
        self._kept.replace(self._database)
        _sync(self._database.parent)
        if not newer:
            return ""
        return f"{newer} messages that came in meanwhile are only in copies/{name}"

    def forget(self) -> None:
        """Remove the second name. Call this when the new version answers."""
        self._kept.unlink(missing_ok=True)


class KeptTables:
    """The tables on a PostgreSQL server, as they were before the new version started. No bot may
    use the database when this object is made, and when the tables are put back."""

    def __init__(self, url: str, dump: Path) -> None:
        from nekro_core.backup.postgres_copy import dump_postgres  # noqa: PLC0415 - no SQLite needs it

        self._url = url
        self._dump = dump
        self._newest = _newest_on_server(url)
        dump.parent.mkdir(exist_ok=True)
        dump.unlink(missing_ok=True)
        dump_postgres(url, dump, lambda _: None)

    def put_back(self) -> str:
        """Put the tables back if the new version migrated them. Return what the operator should
        know; empty if there is nothing. Raises `BackupError` and `StoreError`."""
        if _newest_on_server(self._url) == self._newest:
            self.forget()
            return ""
        aside = self._dump.with_name("server-of-failed-upgrade.dump")
        _replace_tables(self._url, self._dump, aside)
        self.forget()
        return f"the tables of the new version are in copies/{aside.name}"

    def forget(self) -> None:
        """Remove the dump. Call this when the new version answers."""
        self._dump.unlink(missing_ok=True)


def _newest_on_server(url: str) -> str:
    """Return the newest migration of the tables on a server."""
    import anyio  # noqa: PLC0415 - the guard of a bot with a SQLite file needs little memory

    async def read() -> str:
        from nekro_core.backup.postgres_restore import newest_on_server  # noqa: PLC0415 - as above

        return await newest_on_server(url)

    return anyio.run(read)


def _replace_tables(url: str, dump: Path, aside: Path) -> None:
    import anyio  # noqa: PLC0415 - as above

    from nekro_core.backup.postgres_restore import server_tables_replaced  # noqa: PLC0415
    from nekro_core.backup.progress import BackupWork  # noqa: PLC0415

    async def replace() -> None:
        async with server_tables_replaced(url, dump, aside, BackupWork(), replace=True):
            pass

    aside.unlink(missing_ok=True)
    anyio.run(replace)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
