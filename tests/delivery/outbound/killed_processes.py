"""Simulates a ``kill -9`` at any moment. At each iteration of the event loop, this module records
what is on the disk and what the platform shows."""

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import anyio

DATABASE, LOG = "nekro.sqlite3", "nekro.sqlite3-wal"
"""The two files of the database that are copied. SQLite's third file, the shared memory, is not
copied: the next process makes it again."""


@dataclass(frozen=True)
class Moment:
    """What a kill leaves: the database's files, and the number of messages that people see."""

    files: tuple[bytes, ...]
    seen: int

    def put(self, folder: Path) -> Path:
        """Write the files to a folder for the next process."""
        folder.mkdir(parents=True)
        for name, data in zip((DATABASE, LOG), self.files, strict=True):
            if data:
                (folder / name).write_bytes(data)
        return folder

    def messages(self) -> str:
        """The segments of all stored messages. They are read with SQL and not searched for in
        the bytes of the files, because the write-ahead log may also hold messages that were not
        committed."""
        with tempfile.TemporaryDirectory() as folder:
            path = self.put(Path(folder) / "look") / DATABASE
            with closing(sqlite3.connect(path)) as database:
                return str(database.execute("SELECT segments FROM messages").fetchall())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


@asynccontextmanager
async def watched(folder: Path, seen: Callable[[], int]) -> AsyncIterator[list[Moment]]:
    """Collect the different moments that occur while the block runs."""
    moments: dict[Moment, None] = {}

    def look() -> None:
        # A half-written frame of the log fails its checksum, so SQLite ignores it. If the log
        # changes while the files are read, this call records no moment, and the next call does.
        before, data, after = _read(folder / LOG), _read(folder / DATABASE), _read(folder / LOG)
        if before == after:
            moments[Moment((data, after), seen())] = None

    async def look_on() -> None:
        while True:
            look()
            await asyncio.sleep(0)

    found: list[Moment] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look_on)
        yield found
        look()
        tasks.cancel_scope.cancel()
    found += moments


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(30):
        while not await condition():
            await anyio.sleep(0.005)
