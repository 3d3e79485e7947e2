"""Makes one test from each attack of the table. A module with a subclass of `AttackSuite` must
define a fixture ``outcomes``."""

from collections.abc import Mapping

import pytest

from nekro_core.sandbox.box import Backend
from tests.sandbox.attacks import TABLE
from tests.sandbox.attacks.attack import Attack, ids
from tests.sandbox.attacks.campaign import Outcome, carry_out
from tests.sandbox.reused_boxes import ReusableBoxes


async def carry_out_chosen(
    backend: Backend, request: pytest.FixtureRequest, reusable: ReusableBoxes | None = None
) -> Mapping[Attack, Outcome]:
    """Carry out the rows whose tests were selected in the requesting module, several at a time."""
    chosen = [
        item.callspec.params["attack"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and hasattr(item, "callspec")
        and "attack" in item.callspec.params
    ]
    return await carry_out(backend, chosen, reusable)


class AttackSuite:
    """Each test checks the outcome of its row. The fixture carries out all rows before the first
    test."""

    @pytest.mark.parametrize("attack", TABLE, ids=ids(TABLE))
    async def test_the_attack_gets_nothing_through(
        self, outcomes: Mapping[Attack, Outcome], attack: Attack
    ) -> None:
        outcome = outcomes.get(attack)
        if outcome is None:
            pytest.skip("not for this backend")
        assert not outcome.fault, outcome.fault
