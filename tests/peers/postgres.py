"""A real PostgreSQL server from the Debian package. A test starts it on a free port, not as
root."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import asyncpg

from nekro_core.store import Store

_USER = "nekro"
_PASSWORD = "only-for-tests"
_QUICK = ("fsync=off", "full_page_writes=off")
"""These settings lose data only if the machine crashes, and a client sees no difference."""


def programs() -> Path | None:
    """The folder of the newest installed server's programs; None if none is installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[4])
    )
    return found[-1].parent if found else None


class PostgresServer:
    """A server that runs while its context is open.

    PostgreSQL refuses to run as root. A test that is root starts it as the user ``postgres``.
    """

    def __init__(self) -> None:
        self.port = 0
        self._programs = programs()
        self._as: str | None = None if os.getuid() else "postgres"
        self._folder = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._migrated = ""

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="nekro-postgres-"))
        if self._as is not None:
            os.chown(self._folder, pwd.getpwnam(self._as).pw_uid, -1)
        secret = self._folder / "password"
        secret.write_text(_PASSWORD)
        secret.chmod(0o644)
        options = ["--auth=scram-sha-256", f"--pwfile={secret}", f"--username={_USER}", "--no-sync"]
        made = self._run("initdb", f"--pgdata={self._data}", "--encoding=UTF8", *options)
        if made.wait(60):
            raise AssertionError(f"initdb failed:\n{self.log}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def log(self) -> str:
        """The server's log."""
        return (self._folder / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start the server on the same port as before."""
        settings = (*_QUICK, "listen_addresses=127.0.0.1", f"port={self.port}")
        settings += (f"unix_socket_directories={self._folder}", "max_connections=40")
        self._process = self._run(
            "postgres", "-D", str(self._data), *(w for each in settings for w in ("-c", each))
        )
        self._wait_until_it_answers()

    def stop(self, *, at_once: bool = False) -> None:
        """End the server. ``at_once`` ends it as a crash would."""
        if self._process is not None:
            self._process.send_signal(3 if at_once else 2)  # 3 is SIGQUIT, 2 is SIGINT
            self._process.wait(30)
            self._process = None

    async def database(self) -> str:
        """Make a database with the bot's tables, and return its URL."""
        if not self._migrated:
            empty = await self.empty_database()
            async with Store.open(empty):
                self._migrated = empty.rpartition("/")[2]
        return await self.empty_database(like=self._migrated)

    async def empty_database(self, *, like: str = "template0") -> str:
        """Make a database as a copy of ``like``; by default it has no tables. Returns its URL."""
        self._databases += 1
        name = f"test{self._databases}"
        await self.run(f"CREATE DATABASE {name} TEMPLATE {like}")
        return self.url(name)

    def url(self, database: str, scheme: str = "asyncpg") -> str:
        """The URL of a database, in the form of ``NEKRO_DATABASE_URL``."""
        return f"{scheme}://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    async def run(self, sql: str, *, url: str = "") -> list[asyncpg.Record]:
        """Run SQL as an operator would in psql."""
        name = url.rpartition("/")[2] or "postgres"
        connection = await asyncpg.connect(self.url(name, "postgresql"))
        try:
            return await connection.fetch(sql)
        finally:
            await connection.close()

    async def bytes_have(self, words: bytes, *, url: str) -> bool:
        """Return True if a file of the database contains these bytes. The search covers tables,
        indexes and the space outside the rows, but not the server's write-ahead log."""
        await self.run("CHECKPOINT", url=url)
        (row,) = await self.run(
            "SELECT oid FROM pg_database WHERE datname = current_database()", url=url
        )
        files = (self._data / "base" / str(row["oid"])).iterdir()
        return any(words in each.read_bytes() for each in files if each.is_file())

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        assert self._programs is not None, "install Debian's package postgresql"
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._programs / program), *arguments],
                user=self._as,
                group=self._as,
                extra_groups=[] if self._as else None,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            )

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        for _ in range(300):
            asked = ["pg_isready", "--quiet", "--host=127.0.0.1", f"--port={self.port}"]
            if self._run(*asked).wait(10) == 0:
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self.stop()
        raise AssertionError(f"PostgreSQL does not answer:\n{self.log[-4000:]}")
