"""Processes that are killed at any moment: what disk and platform hold at each turn of the loop,
as a ``kill -9`` there would leave them."""

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import anyio

DATABASE, LOG = "nekro.sqlite3", "nekro.sqlite3-wal"
"""The third, shared memory, is the process's own: SQLite makes it anew."""


@dataclass(frozen=True)
class Moment:
    """What is left: the database's files, and how many messages people see by then."""

    files: tuple[bytes, ...]
    seen: int

    def put(self, folder: Path) -> Path:
        """Lay the files out for the next process."""
        folder.mkdir(parents=True)
        for name, data in zip((DATABASE, LOG), self.files, strict=True):
            if data:
                (folder / name).write_bytes(data)
        return folder

    def messages(self) -> str:
        """What the database has of them. The log may hold words that no commit followed."""
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
    """Every moment that differs from the one before, while the body runs."""
    moments: dict[Moment, None] = {}

    def look() -> None:
        # A frame that is half written fails its checksum, and is none. What is written while this
        # reads is no moment: the next look finds it.
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
