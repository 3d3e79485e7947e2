"""Makes one jail backend for all tests. Its boxes are reused, because making a box takes longer
than most of these tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.sandbox.box import Answer, Box, BoxSpec, CallFailure, GuestCall
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings

EMPTY = """\
import os, shutil
for name in os.listdir("/home/user"):
    path = "/home/user/" + name
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
"""


class BorrowedBox:
    """A box from `BoxCache`. When a bot destroys it, it is only emptied, and a later bot uses it
    again."""

    def __init__(self, inner: Box, cache: "BoxCache") -> None:
        self.inner = inner
        self._cache = cache
        self._given_back = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def alive(self) -> bool:
        return self.inner.alive and not self._given_back

    async def destroy(self) -> None:
        if not self._given_back:
            self._given_back = True
            await self._cache.give_back(self.inner)


class BoxCache:
    """The source from which the bots of all tests take their boxes."""

    unavailable = ""
    pool_bytes = 0

    def __init__(self, backend: JailBackend) -> None:
        self._backend = backend
        self._boxes: list[Box] = []

    async def take(self, image: str = "") -> BorrowedBox:
        inner = self._boxes.pop() if self._boxes else await self._backend.create(BoxSpec())
        return BorrowedBox(inner, self)

    async def give_back(self, box: Box) -> None:
        if not box.alive:
            return

        async def refuse(_call: GuestCall) -> Answer:
            return CallFailure("no tools here")

        run = await box.start_run((), refuse)
        await run.feed(EMPTY, 1)
        await run.finish()
        self._boxes.append(box)


@pytest.fixture(scope="session")
async def boxes(anyio_backend: str) -> AsyncIterator[BoxCache]:
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(packages=False), tasks)
        yield BoxCache(backend)
        await backend.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"
