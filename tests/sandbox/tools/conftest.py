"""Fixtures: boxes for the tests of the tools. Each module has a fixture ``backend``."""

import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from nekro_core.sandbox.box import Backend
from nekro_core.sandbox.named import FolderStorage, NamedBoxes, NamedBoxLimits
from tests.sandbox.tools.caller import Source, ToolCaller


@pytest.fixture(scope="module")
async def source(backend: Backend) -> Source:
    return Source(backend)


@pytest.fixture(scope="module")
async def keeper(
    source: Source, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[NamedBoxes]:
    storage = FolderStorage(tmp_path_factory.mktemp("boxes"))
    keeper = NamedBoxes(source, storage, NamedBoxLimits(), clock=time.monotonic)
    yield keeper
    await keeper.aclose()


@pytest.fixture(scope="module")
async def call(keeper: NamedBoxes, source: Source) -> ToolCaller:
    return ToolCaller(keeper, source, "lin")


@pytest.fixture
async def folder(call: ToolCaller) -> str:
    """A new folder in the box, for one test."""
    path = f"/home/user/{secrets.token_hex(4)}"
    await call("shell", command=f"mkdir {path}")
    return path


@pytest.fixture
async def fresh(backend: Backend, tmp_path: Path) -> AsyncIterator[Callable[[str], ToolCaller]]:
    """Makes callers whose boxes no other test uses."""
    source = Source(backend)
    keeper = NamedBoxes(
        source, FolderStorage(tmp_path / "boxes"), NamedBoxLimits(), clock=time.monotonic
    )
    yield lambda owner: ToolCaller(keeper, source, owner)
    await keeper.aclose()
