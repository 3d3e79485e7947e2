"""A real PostgreSQL server from the Debian package. A test starts it on a free port, not as
root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import asyncpg

from nekro_core.store import Store
from tests.peers.ports import free_port

_USER = "nekro"
_PASSWORD = "only-for-tests"
_KILLED_S = 5.0
"""The longest time in seconds to wait until the processes of connections have ended by SIGKILL."""
_QUICK = ("fsync=off", "full_page_writes=off")
"""These settings lose data only if the machine crashes, and a client sees no difference."""


def programs() -> Path | None:
    """The folder of the newest installed server's programs; None if none is installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[4])
    )
    return found[-1].parent if found else None


def _children(parent: int) -> list[int]:
    """The ids of the processes that a process has started and that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # A process can end while the folder is read. The program's name, in brackets, can have
        # spaces; the state and the parent's id follow it.
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def is_running(process: int) -> bool:
    """Whether a process runs. One that has ended, and that its parent has not collected yet, does
    not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
        self.port = free_port()
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The server's first process. Its connections are its children."""
        assert self._process is not None
        return self._process.pid

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

    def kill(self) -> None:
        """End the server and the processes of its connections with SIGKILL. Nothing is cleaned up:
        the next start finds the lock file and recovers from the write-ahead log."""
        if self._process is None:
            return
        # A stopped server makes no new process between the listing and the kill.
        self._process.send_signal(signal.SIGSTOP)
        family = _children(self._process.pid)
        self._process.kill()
        for child in family:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.wait(30)
        self._process = None
        deadline = time.monotonic() + _KILLED_S
        while any(map(is_running, family)) and time.monotonic() < deadline:
            time.sleep(0.005)

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
