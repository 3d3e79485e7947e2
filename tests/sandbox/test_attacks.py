"""Carries out the attacks of `tests.sandbox.attacks` in boxes of the jail."""

from collections.abc import Mapping

import pytest

from nekro_core.sandbox.box import Backend
from tests.sandbox.attacks.attack import Attack
from tests.sandbox.attacks.campaign import Outcome
from tests.sandbox.attacks.suite import AttackSuite, carry_out_chosen

pytestmark = [pytest.mark.jail, pytest.mark.long]


@pytest.fixture(scope="module")
async def outcomes(jail: Backend, request: pytest.FixtureRequest) -> Mapping[Attack, Outcome]:
    return await carry_out_chosen(jail, request)


class TestJail(AttackSuite):
    pass
