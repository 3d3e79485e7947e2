"""Carries out the attacks of `tests.sandbox.attacks` in boxes of the jail."""

from collections.abc import AsyncIterator, Mapping

import anyio
import pytest

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import Backend
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from tests.sandbox.attacks.attack import Attack
from tests.sandbox.attacks.campaign import Outcome
from tests.sandbox.attacks.suite import AttackSuite, carry_out_chosen

pytestmark = [pytest.mark.jail, pytest.mark.long]


@pytest.fixture(scope="module")
async def backend() -> AsyncIterator[Backend]:
    """A jail like the fixture ``jail``, but its boxes also have the folder of the shared packages.
    This folder is empty if no test has fetched the packages."""
    settings = SandboxSettings(backend=BackendName.JAIL, total_memory_mb=1024 * 1024)
    async with anyio.create_task_group() as tasks:
        backend = await open_backend(settings, tasks)
        yield backend
        await backend.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture(scope="module")
async def outcomes(backend: Backend, request: pytest.FixtureRequest) -> Mapping[Attack, Outcome]:
    return await carry_out_chosen(backend, request)


class TestJail(AttackSuite):
    pass
