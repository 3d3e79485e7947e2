"""Boxes that are used again: what was emptied is as good as fresh, and there much sooner.

Where a box takes half a second to make, a suite of hundreds of tests would take minutes. What an
attack did to its box, and emptying does not undo, fails the next: that is a finding too.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from nekro_core.sandbox.box import Backend, Box, RunLimits
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import play

_EMPTY = """
import os, shutil
for folder in ("/home/user", "/tmp", "/dev/shm"):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry, ignore_errors=True)
        else:
            os.unlink(entry)
print(sum(len(os.listdir(folder)) for folder in ("/home/user", "/tmp", "/dev/shm")))
"""
_SORT = replace(SMALL, processes=SMALL.processes + 2)
"""A box that was used may have a run frozen with its globals, and is to hold as much besides."""
_PATIENCE_S = 5.0
_KEPT = 4


class Shelf:
    """Small boxes of one backend."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._kept: list[Box] = []

    async def take(self) -> Box:
        """An empty box."""
        while self._kept:
            box = self._kept.pop()
            if box.alive and await _empty(box):
                return box
            await box.destroy()
        return await self.backend.create(_SORT)

    async def give_back(self, box: Box) -> None:
        """Of no more use to whoever took it."""
        if box.alive and len(self._kept) < _KEPT:
            self._kept.append(box)
        else:
            await box.destroy()

    async def aclose(self) -> None:
        """Destroy those that wait."""
        while self._kept:
            await self._kept.pop().destroy()


@asynccontextmanager
async def shelf_of(backend: Backend) -> AsyncIterator[Shelf]:
    """A shelf; leaving it destroys its boxes."""
    shelf = Shelf(backend)
    try:
        yield shelf
    finally:
        await shelf.aclose()


async def _empty(box: Box) -> bool:
    box.stop_commands()
    with anyio.move_on_after(_PATIENCE_S):
        result = await play(box, _EMPTY, RunLimits(seconds=_PATIENCE_S))
        return result.output == "0\n"
    return False
