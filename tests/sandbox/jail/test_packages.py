"""Code in boxes of the jail uses the packages that every box has."""

from collections.abc import AsyncIterator

import anyio
import pytest

from nekro_core.sandbox.box import Backend, Box, BoxSpec
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.package_fetch import PackagesUnavailable
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.conformance_packages import PackageConformance

pytestmark = [pytest.mark.jail, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
async def backend(anyio_backend: str) -> AsyncIterator[Backend]:
    async with anyio.create_task_group() as tasks:
        jail = JailBackend(SandboxSettings(packages=True), tasks)
        await jail.images()
        assert jail.packages is not None
        try:
            await jail.packages.fetch()
        except PackagesUnavailable as error:
            await jail.aclose()
            pytest.skip(str(error))
        yield jail
        await jail.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture
async def box(backend: Backend) -> AsyncIterator[Box]:
    box = await backend.create(BoxSpec())
    yield box
    await box.destroy()


class TestJailPackages(PackageConformance):
    pass


async def test_an_image_with_another_interpreter_promises_no_packages() -> None:
    async with anyio.create_task_group() as tasks:
        jail = JailBackend(SandboxSettings(default_image="no-such-image"), tasks)
        await jail.images()
        assert jail.packages is None
        await jail.aclose()
        tasks.cancel_scope.cancel()
