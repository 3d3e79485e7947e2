"""Fixtures: real boxes for the tests of `nekro_core.sandbox`."""

import contextlib
import os
from collections.abc import AsyncIterator

import anyio
import pytest

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import Backend, Box, BoxSpec
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from tests.sandbox.docker.engine import NoEngine, give_image, running_engine

SMALL = BoxSpec(memory_bytes=192 * 1024 * 1024, disk_bytes=16 * 1024 * 1024, processes=24)


@pytest.fixture(scope="session")
async def jail() -> AsyncIterator[Backend]:
    """The jail, opened with a self-check as in the bot. The memory limit of all boxes together is
    so high that it has no effect. It counts socket memory, so it could end a box that an attack
    test makes without its own limit (see `tests.sandbox.test_memory_limit`)."""
    settings = SandboxSettings(
        backend=BackendName.JAIL, packages=False, total_memory_mb=1024 * 1024
    )
    async with anyio.create_task_group() as tasks:
        backend = await open_backend(settings, tasks)
        yield backend
        await backend.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture
async def box(jail: Backend) -> AsyncIterator[Box]:
    """A small box of the jail."""
    made = await jail.create(SMALL)
    yield made
    await made.destroy()


@pytest.fixture(scope="session")
async def used_box(jail: Backend) -> AsyncIterator[Box]:
    """One box for all tests that do not disturb other tests."""
    made = await jail.create(SMALL)
    yield made
    await made.destroy()


@pytest.fixture(scope="session")
async def docker_host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of an engine that has an image for boxes."""
    if given := os.environ.get("NEKRO_TEST_DOCKER_HOST"):
        yield given
        return
    with contextlib.ExitStack() as stack:
        try:
            host = stack.enter_context(running_engine(tmp_path_factory.mktemp("docker") / "engine"))
        except NoEngine as reason:
            pytest.skip(str(reason))
        await give_image(host)
        yield host


@pytest.fixture(scope="session")
async def docker(docker_host: str) -> AsyncIterator[Backend]:
    """The docker backend, opened with a self-check as in the bot."""
    settings = SandboxSettings(backend=BackendName.DOCKER, docker_host=docker_host)
    async with anyio.create_task_group() as tasks:
        backend = await open_backend(settings, tasks)
        yield backend
        await backend.aclose()
        tasks.cancel_scope.cancel()
