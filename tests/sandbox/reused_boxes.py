"""Boxes that are emptied and used again, because this is much faster than making new boxes.

Making a box may take half a second, so making one for each of hundreds of tests would take minutes.
If an attack changes its box in a way that emptying does not undo, the next test fails and thus
reports this.
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
"""A used box may have a stopped interpreter with globals. So two more processes are allowed, and
the next test can start as many as in a new box."""
_PATIENCE_S = 5.0
_KEPT = 4


class ReusableBoxes:
    """Small boxes of one backend."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._kept: list[Box] = []

    async def take(self) -> Box:
        """Take an empty box: a used one if there is one, else a new one."""
        while self._kept:
            box = self._kept.pop()
            if box.alive and await _empty(box):
                return box
            await box.destroy()
        return await self.backend.create(_SORT)

    async def give_back(self, box: Box) -> None:
        """Give a box back for later use."""
        if box.alive and len(self._kept) < _KEPT:
            self._kept.append(box)
        else:
            await box.destroy()

    async def aclose(self) -> None:
        """Destroy the boxes that were given back."""
        while self._kept:
            await self._kept.pop().destroy()


@asynccontextmanager
async def reusable_boxes(backend: Backend) -> AsyncIterator[ReusableBoxes]:
    """A `ReusableBoxes`. Its boxes are destroyed at the end of the context."""
    reusable = ReusableBoxes(backend)
    try:
        yield reusable
    finally:
        await reusable.aclose()


async def _empty(box: Box) -> bool:
    box.stop_commands()
    with anyio.move_on_after(_PATIENCE_S):
        result = await play(box, _EMPTY, RunLimits(seconds=_PATIENCE_S))
        return result.output == "0\n"
    return False
