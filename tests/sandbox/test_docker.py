"""Containers of a real Docker engine pass what every backend must pass."""

from collections.abc import AsyncIterator, Mapping

import pytest

from nekro_core.sandbox.box import Backend, Box
from tests.sandbox.attacks.attack import Attack
from tests.sandbox.attacks.campaign import Outcome
from tests.sandbox.attacks.suite import AttackSuite, carry_out_chosen
from tests.sandbox.conformance import BackendConformance
from tests.sandbox.shelf import Shelf, shelf_of

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
async def shelf(docker: Backend) -> AsyncIterator[Shelf]:
    async with shelf_of(docker) as opened:
        yield opened


@pytest.fixture
async def box(shelf: Shelf) -> AsyncIterator[Box]:
    taken = await shelf.take()
    yield taken
    await shelf.give_back(taken)


@pytest.fixture(scope="module")
async def used_box(shelf: Shelf) -> AsyncIterator[Box]:
    taken = await shelf.take()
    yield taken
    await shelf.give_back(taken)


class TestDocker(BackendConformance):
    @pytest.fixture
    def backend(self, docker: Backend) -> Backend:
        return docker


@pytest.fixture(scope="module")
async def outcomes(shelf: Shelf, request: pytest.FixtureRequest) -> Mapping[Attack, Outcome]:
    return await carry_out_chosen(shelf.backend, request, shelf)


class TestAttacks(AttackSuite):
    pass
