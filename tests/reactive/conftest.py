"""Fixtures: real boxes for the reactive tests, with a count of the boxes that are running."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.reactive.scope import Resources
from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import Backend, Box, BoxSpec, ImageUnavailable
from nekro_core.sandbox.named import FolderStorage, NamedBoxes, NamedBoxLimits
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from nekro_core.sandbox.tools import SandboxPool
from tests.peers.reach import Anywhere

SMALL = BoxSpec(memory_bytes=192 * 1024 * 1024, disk_bytes=16 * 1024 * 1024, processes=24)


@dataclass
class Source:
    """Makes boxes with the jail backend and records all of them. The images ``python:3.11`` and
    ``other`` differ only in their names."""

    backend: Backend
    images: frozenset[str] = frozenset({"", "python", "python:3.11", "other"})
    taken: list[tuple[str, Box]] = field(default_factory=list)

    async def take(self, image: str = "") -> Box:
        if image not in self.images:
            raise ImageUnavailable(image, sorted(self.images))
        box = await self.backend.create(SMALL)
        self.taken.append((image, box))
        return box

    @property
    def alive(self) -> int:
        return sum(box.alive for _, box in self.taken)

    @property
    def asked_for(self) -> list[str]:
        return [image for image, _ in self.taken]


@pytest.fixture(scope="session")
async def jail() -> AsyncIterator[Backend]:
    async with anyio.create_task_group() as tasks:
        backend = await open_backend(
            SandboxSettings(backend=BackendName.JAIL, packages=False), tasks
        )
        yield backend
        await backend.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture
async def source(jail: Backend) -> AsyncIterator[Source]:
    made = Source(jail)
    yield made
    assert made.alive == 0, "a box is running although its user has ended"


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    """A fetcher that may connect to this machine, where the tests' servers run."""
    async with Fetcher(MediaSettings(fetch_s=5.0), Anywhere()) as opened:
        yield opened


@pytest.fixture
async def pool(source: Source, tmp_path: Path) -> AsyncIterator[SandboxPool]:
    """The pool of the boxes of a chat."""
    clock: Callable[[], float] = anyio.current_time
    named = NamedBoxes(source, FolderStorage(tmp_path), NamedBoxLimits(), clock=clock)
    yield SandboxPool(named.of("chat"))
    await named.aclose()


@pytest.fixture
def resources(source: Source, fetcher: Fetcher, pool: SandboxPool) -> Resources:
    return Resources(boxes=source, fetcher=fetcher, pool=pool)
