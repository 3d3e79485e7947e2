"""One jail for all conversations: making its first box takes longer than most of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import BoxSpec
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.pool import BoxPool
from nekro_core.sandbox.settings import SandboxSettings


@pytest.fixture(scope="session")
async def boxes(anyio_backend: str) -> AsyncIterator[BoxPool]:
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(), tasks)
        async with BoxPool(backend, BoxSpec(), 2) as pool:
            yield pool
        await backend.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"
